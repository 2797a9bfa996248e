"""B95: a long prompt was silently cut, and the instructions were lost."""

import pytest

from conftest import TINY_CONTEXT
from serving import Server
from support import http

FIRST, LAST = "@", "~"


def message(filler: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": FIRST + "!" * filler + LAST}]


@pytest.mark.parametrize("filler", [TINY_CONTEXT - 3, TINY_CONTEXT * 4])
@pytest.mark.parametrize("stream", [False, True])
def test_over_long_is_refused_not_cut(tiny: Server, filler: int, stream: bool):
    error = http.refused(http.post(tiny, http.CHAT, {
        "messages": message(filler), "stream": stream, "max_tokens": 1}))
    assert error["code"] == "context_length_exceeded"


def test_what_just_fits_is_evaluated_whole(tiny: Server):
    """<|user|> @ !...! ~ <|end|> <|assistant|>, and one token of reply."""
    filler = TINY_CONTEXT - 6
    answer = http.chat(tiny, message(filler)[0]["content"], max_tokens=1,
                       cache_prompt=False)
    first, last, dot = 31, 93, 0  # of "@", "~" and "!"
    assert answer["prompt_token_ids"] == [
        497, first, *[dot] * filler, last, 499, 498]
    assert answer["cache"]["evaluated_tokens"] == TINY_CONTEXT - 1
