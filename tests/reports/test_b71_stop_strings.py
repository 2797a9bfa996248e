"""B71: the first part of a stop string reached the client."""

import pytest

from serving import Server
from support import http

FOX: list[str | bytes] = ["The", " quick", " br", "own", " f", "ox", " jumps"]


@pytest.mark.parametrize("stop,expected,reason", [
    ("own fox", "The quick br", "stop"),
    (["zebra", "own fox", " fox"], "The quick br", "stop"),
    ("k b", "The quic", "stop"),
    ("The", "", "stop"),
    ("own fog", "The quick brown fox jumps", "stop"),
    ("fox jumps high", "The quick brown fox jumps", "stop"),
    (" jumps", "The quick brown fox", "stop"),
], ids=str)
def test_text_ends_before_the_stop_string(script, stop, expected: str,
                                          reason: str):
    server: Server = script({"A": FOX, "<|assistant|>": ["unused"]})
    body = {"prompt": "A", "temperature": 0, "stop": stop}
    choice = http.complete(server, **body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (expected, reason)
    events = http.stream(server, http.COMPLETIONS, body)
    assert http.stream_text(events) == expected
    reasons = [c["finish_reason"] for e in events for c in e["choices"]]
    assert [r for r in reasons if r] == [reason]


def test_what_was_held_back_comes_out_at_the_length_limit(script):
    server: Server = script({"A": FOX})
    body = {"prompt": "A", "temperature": 0, "stop": "own fox", "max_tokens": 4}
    choice = http.complete(server, **body)["choices"][0]
    assert choice["text"] == "The quick brown"
    assert choice["finish_reason"] == "length"
    assert http.stream_text(
        http.stream(server, http.COMPLETIONS, body)) == "The quick brown"


def test_chat_stops_too(script):
    server: Server = script({"<|assistant|>": FOX})
    body = {"messages": [{"role": "user", "content": "x"}], "temperature": 0,
            "stop": ["own fox"]}
    answer = http.post(server, http.CHAT, body).json()
    assert answer["choices"][0]["message"]["content"] == "The quick br"
    assert http.stream_text(
        http.stream(server, http.CHAT, body)) == "The quick br"
