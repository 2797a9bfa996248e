"""Messages and prompts: what is understood, and what is refused by name."""

from typing import Any

import pytest

from conftest import TINY_CONTEXT
from serving import Server
from support import http

PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize("messages,part", [
    ([], "messages"),
    (None, "messages"),
    ("hello", "messages"),
    ({"role": "user", "content": "x"}, "messages"),
    (["hello"], "messages[0]"),
    ([{"content": "x"}], "messages[0]"),
    ([{"role": "wizard", "content": "x"}], "wizard"),
    ([{"role": 7, "content": "x"}], "messages[0]"),
    ([{"role": "user", "content": 5}], "messages[0]"),
    ([{"role": "user", "content": {"text": "x"}}], "messages[0]"),
    ([{"role": "user", "content": [5]}], "messages[0]"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0]"),
    ([{"role": "user", "content": [{"type": "smell", "smell": 1}]}], "smell"),
    ([{"role": "user", "content": "x"},
      {"role": "user", "content": [
          {"type": "image_url", "image_url": {"url": PIXEL}}]}], "image"),
], ids=lambda v: str(v)[:40])
def test_bad_messages_are_named(tiny: Server, messages: Any, part: str):
    for stream in (False, True):
        error = http.refused(http.post(
            tiny, http.CHAT, {"messages": messages, "stream": stream}))
        assert part in error["message"] or part in str(error["param"]), error
        assert str(error["param"]).startswith("messages"), error
    http.serves(tiny)


def test_messages_may_not_be_missing(tiny: Server):
    assert http.refused(http.post(tiny, http.CHAT, {}))["param"] == "messages"
    assert http.refused(
        http.post(tiny, http.COMPLETIONS, {}))["param"] == "prompt"


@pytest.mark.parametrize("prompt,part", [
    (None, "prompt"), (5, "prompt"), ({"a": 1}, "prompt"), ([], "prompt"),
    ("", "prompt"), (["a", ""], "prompt"), ([[1], [600]], "600"),
    (["a"] * 129, "prompt"),
    ([1, "a"], "prompt"), ([1.5], "1.5"), ([512], "512"), ([-1], "-1"),
    ([3, 2 ** 31], str(2 ** 31)), ([2 ** 70], "prompt"), ([True], "prompt"),
], ids=lambda v: str(v)[:20])
def test_bad_prompts_are_named(tiny: Server, prompt: Any, part: str):
    error = http.refused(http.post(tiny, http.COMPLETIONS, {"prompt": prompt}))
    assert str(error["param"]).startswith("prompt"), error
    assert part in error["message"], error
    http.serves(tiny)


@pytest.mark.parametrize("prompt,count", [
    ([7], 1), ([[7, 8]], 2), ("zq", 2), (["zq"], 2)], ids=str)
def test_prompts_in_every_form(tiny: Server, prompt: Any, count: int):
    answer = http.complete(tiny, prompt, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == count


def test_roles_of_every_kind(tiny: Server):
    messages = [{"role": "developer", "content": "a"},
                {"role": "system", "content": "a"},
                {"role": "user", "content": "b"},
                {"role": "assistant", "content": "c"},
                {"role": "tool", "content": "d", "tool_call_id": "x"},
                {"role": "user", "content": "e"}]
    answer = http.post(tiny, http.CHAT, {"messages": messages, "max_tokens": 1})
    assert answer.status_code == 200, answer.text


def test_token_ids_go_both_ways(tiny: Server):
    """The ids of a chat, sent as a prompt, give the same reply."""
    said = http.chat(tiny, "hello there", max_tokens=8, ignore_eos=True)
    prompt = said.get("prompt_token_ids") or said["choices"][0]["prompt_token_ids"]
    assert len(prompt) == said["usage"]["prompt_tokens"]
    again = http.complete(tiny, prompt, max_tokens=8, ignore_eos=True)
    assert again["choices"][0]["token_ids"] == said["choices"][0]["token_ids"]
    assert len(again["choices"][0]["token_ids"]) == 8


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("length", [TINY_CONTEXT, TINY_CONTEXT + 1,
                                    3 * TINY_CONTEXT])
def test_prompt_beyond_the_context(tiny: Server, stream: bool, length: int):
    error = http.refused(http.post(tiny, http.COMPLETIONS, {
        "prompt": [1] * length, "stream": stream}))
    assert error["code"] == "context_length_exceeded"
    assert str(length) in error["message"]
    assert str(TINY_CONTEXT) in error["message"]
    http.serves(tiny)


def test_reply_is_cut_at_the_context(tiny: Server):
    answer = http.complete(tiny, [1] * (TINY_CONTEXT - 3), max_tokens=50,
                           ignore_eos=True)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == TINY_CONTEXT
