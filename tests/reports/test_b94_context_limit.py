"""B94: a prompt over the limit was a 200 with an empty stream."""

import pytest

from conftest import TINY_CONTEXT
from serving import Server
from support import http


def test_one_token_below_the_limit_is_served(tiny: Server):
    prompt = [9] * (TINY_CONTEXT - 1)
    answer = http.complete(tiny, prompt, max_tokens=5, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] == "length"
    events = http.stream(tiny, http.COMPLETIONS, {
        "prompt": prompt, "max_tokens": 5, "ignore_eos": True})
    assert [c["finish_reason"] for e in events for c in e["choices"]
            if c["finish_reason"]] == ["length"]


@pytest.mark.parametrize("length", [TINY_CONTEXT, TINY_CONTEXT + 1,
                                    2 * TINY_CONTEXT])
@pytest.mark.parametrize("stream", [False, True])
def test_at_and_over_the_limit_is_refused(tiny: Server, length: int,
                                          stream: bool):
    """A prompt that fills the context leaves no room for a reply."""
    for path, body in (
            (http.COMPLETIONS, {"prompt": [9] * length}),
            (http.COMPLETIONS, {"prompt": "!" * length})):
        error = http.refused(http.post(tiny, path, {**body, "stream": stream}))
        assert error["code"] == "context_length_exceeded"
        assert str(length) in error["message"]
        assert str(TINY_CONTEXT) in error["message"]
    http.serves(tiny)


@pytest.mark.parametrize("stream", [False, True])
def test_chat_over_the_limit_is_refused(tiny: Server, stream: bool):
    error = http.refused(http.post(tiny, http.CHAT, {
        "messages": [{"role": "user", "content": "!" * TINY_CONTEXT}],
        "stream": stream}))
    assert error["code"] == "context_length_exceeded"
    assert str(TINY_CONTEXT) in error["message"]
    http.serves(tiny)
