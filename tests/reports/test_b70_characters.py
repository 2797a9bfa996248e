"""B70: characters whose bytes come in several tokens were broken."""

import pytest

from serving import Server
from support import http

SCRIPTS: dict[str, list[str | bytes]] = {
    # U+1FAE0, U+1F979, U+9F9C, d with caron; then a token that begins with a
    # space; and a cut character at the very end.
    "A": ["So ", b"\xf0", b"\x9f\xab", b"\xa0", b"\xf0\x9f", b"\xa5\xb9",
          b"\xe9", b"\xbe\x9c", b"\xc4", b"\x8f", " then"],
    "B": ["It ends", b"\xf0\x9f\xa5", b"\xb9"],
    "C": [b"\xe9\xbe", b"\x9c ", b"\xc4\x8f", b"\x20\xf0\x9f\xab", b"\xa0!"],
}


def both(server: Server, prompt: str, **more) -> tuple[list[str], str]:
    """The pieces of a stream, and the text without one."""
    body = {"prompt": prompt, "temperature": 0, **more}
    pieces = [http.stream_text([e])
              for e in http.stream(server, http.COMPLETIONS, body)]
    return pieces, http.complete(server, **body)["choices"][0]["text"]


@pytest.mark.parametrize("prompt", SCRIPTS)
def test_no_character_is_broken(script, prompt: str):
    expected = b"".join(
        p.encode() if isinstance(p, str) else p for p in SCRIPTS[prompt]).decode()
    pieces, whole = both(script(SCRIPTS), prompt)
    assert whole == expected
    assert "".join(pieces) == expected
    assert "\ufffd" not in whole and len([p for p in pieces if p]) > 1


def test_a_reply_cut_inside_a_character(script):
    """What cannot be completed is said as one U+FFFD, the same both ways."""
    pieces, whole = both(script(SCRIPTS), "B", max_tokens=2)
    assert "".join(pieces) == whole == "It ends\ufffd"
