"""B87: `content: null` and content arrays were refused."""

from typing import Any

import pytest

from serving import Server
from support import http

CALL = {"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": "{\"a\": 1}"}}


def ask(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(server, http.CHAT, {
        "messages": [{"role": "user", "content": "x"}, message,
                     {"role": "user", "content": "y"}],
        "max_tokens": 1, "return_token_ids": True})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("message", [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": []},
    {"role": "tool", "tool_call_id": "c1", "content": "result"},
], ids=str)
def test_is_served(smol: Server, message: dict[str, Any]):
    assert ask(smol, message)["usage"]["completion_tokens"] == 1


def test_array_equals_the_joined_string(smol: Server):
    parts = [{"type": "text", "text": t} for t in ("The quick ", "brown", " fox")]
    array = ask(smol, {"role": "user", "content": parts})
    string = ask(smol, {"role": "user", "content": "The quick brown fox"})
    assert array["prompt_token_ids"] == string["prompt_token_ids"]
    empty = ask(smol, {"role": "user", "content": []})
    assert empty["prompt_token_ids"] == ask(
        smol, {"role": "user", "content": ""})["prompt_token_ids"]
