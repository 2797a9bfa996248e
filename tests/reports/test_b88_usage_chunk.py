"""B88: a usage chunk came unasked, or with choices in it."""

import json

import httpx
import pytest

from serving import Server
from support import http

BODIES = {http.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
          http.COMPLETIONS: {"prompt": "hi"}}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("options", [
    None, {}, {"include_usage": False}, {"include_usage": True}], ids=str)
def test_usage_comes_last_and_only_when_asked(tiny: Server, path: str, options):
    body = {**BODIES[path], "stream": True, "max_tokens": 3, "ignore_eos": True}
    if options is not None:
        body["stream_options"] = options
    answer = httpx.post(tiny.url + path, json=body, timeout=60)
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    events = [json.loads(line[6:]) for line in lines]
    with_usage = [e for e in events if e.get("usage")]
    empty = [e for e in events if e["choices"] == []]
    if options and options.get("include_usage"):
        assert with_usage == empty == [events[-1]]
        assert events[-1]["usage"]["completion_tokens"] == 3
    else:
        assert with_usage == empty == []
