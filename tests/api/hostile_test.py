"""Bodies and heads that no honest client sends: one clear 4xx each, and the
next request is served."""

import httpx
import pytest

from serving import Server
from support import http

BODIES = {
    "empty": b"",
    "not JSON": b"hello",
    "cut off": b'{"prompt": "x"',
    "trailing garbage": b'{"prompt": "x"} {"a": 1}',
    "an array": b'[{"prompt": "x"}]',
    "a string": b'"prompt"',
    "null": b"null",
    "comments": b'{"prompt": "x" /* y */}',
    "single quotes": b"{'prompt': 'x'}",
    "invalid UTF-8": b'{"prompt": "\xff\xfe"}',
    "overlong UTF-8": b'{"prompt": "\xc0\xaf"}',
    "a UTF-8 surrogate": b'{"prompt": "\xed\xa0\x80"}',
    "half a surrogate pair": b'{"prompt": "\\ud83d"}',
    "a raw control character": b'{"prompt": "a\nb"}',
    "NUL bytes": b"\x00" * 64,
    "very deep": b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
HUNDRED_MB = 100 << 20
MIB = bytes(1 << 20)


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /v1/completions HTTP/1.1", "Host: x",
                        *lines, "", ""]).encode()


@pytest.mark.parametrize("name", BODIES)
def test_malformed_bodies(tiny: Server, name: str):
    for path in (http.CHAT, http.COMPLETIONS):
        http.refused(http.post(tiny, path, BODIES[name]))
    http.serves(tiny)


def test_100_mb_body_announced(tiny: Server):
    said = http.raw_exchange(tiny, [
        head("Content-Type: application/json", f"Content-Length: {HUNDRED_MB}"),
        *[MIB] * 100])
    assert http.status_of(said) == 413
    assert b"33554432" in said or b"32 MiB" in said, "it names the limit"
    http.serves(tiny)


def test_100_mb_body_in_chunks(tiny: Server):
    piece = b"100000\r\n" + MIB + b"\r\n"
    said = http.raw_exchange(tiny, [head("Transfer-Encoding: chunked"),
                                    *[piece] * 100, b"0\r\n\r\n"])
    assert http.status_of(said) == 413
    http.serves(tiny)


def test_large_bodies_under_the_limit_are_read(tiny: Server):
    """8 MiB that the server ignores, around an ordinary request."""
    answer = http.post(tiny, http.COMPLETIONS, {
        "prompt": [1], "max_tokens": 1, "ignored": "x" * (8 << 20)})
    assert answer.status_code == 200, answer.text[:500]


@pytest.mark.parametrize("lines", [
    [f"X-{i}: " + "y" * 1000 for i in range(1000)],
    ["X-One: " + "y" * 1_000_000],
], ids=["a thousand", "one"])
def test_a_megabyte_of_headers(tiny: Server, lines: list[str]):
    said = http.raw_exchange(tiny, [head(*lines)])
    assert http.status_of(said) == 431
    http.serves(tiny)


@pytest.mark.parametrize("text", [
    b"\r\n\r\n\x00\x01\x02\r\n\r\n",
    b"GET\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: zz\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
], ids=["bytes", "no target", "negative length", "no number", "version"])
def test_broken_http(tiny: Server, text: bytes):
    said = http.raw_exchange(tiny, [text], timeout_s=10)
    assert not said or 400 <= http.status_of(said) < 600
    assert b" 200 " not in said.split(b"\r\n")[0]
    http.serves(tiny)


def test_unknown_paths_and_methods(tiny: Server):
    answer = httpx.get(tiny.url + "/v1/embeddings")
    assert "/v1/embeddings" in http.refused(answer, 404)["message"]
    answer = httpx.get(tiny.url + http.CHAT)
    http.refused(answer, 405)
    assert "POST" in answer.headers["Allow"]
    answer = httpx.delete(tiny.url + "/v1/models")
    http.refused(answer, 405)
    assert "GET" in answer.headers["Allow"]
    http.serves(tiny)
