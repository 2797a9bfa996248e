"""Log-probabilities in every shape, through the official client."""

import math
from typing import Any

import openai
import pytest

from serving import Server
from support import http

MESSAGES = [{"role": "user", "content": "tell me"}]


@pytest.fixture
def api(tiny: Server, client) -> openai.OpenAI:
    return client(tiny)


def chat(api: openai.OpenAI, **more: Any):
    return api.chat.completions.create(
        **{"model": "", "messages": MESSAGES, "temperature": 0, "max_tokens": 24,
           "extra_body": {"ignore_eos": True}, **more})


def test_chat(api: openai.OpenAI):
    answer = chat(api, logprobs=True, top_logprobs=5)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens == 24
    spelled = b"".join(bytes(entry.bytes) for entry in content)
    assert spelled.decode(errors="replace") == answer.choices[0].message.content
    for entry in content:
        top = [t.logprob for t in entry.top_logprobs]
        assert len(top) == 5 and top == sorted(top, reverse=True)
        assert entry.token == entry.top_logprobs[0].token, "greedy"
        assert entry.logprob == top[0]
        assert sum(map(math.exp, top)) < 1.0001
    assert chat(api).choices[0].logprobs is None


def test_chat_without_top(api: openai.OpenAI):
    content = chat(api, logprobs=True).choices[0].logprobs.content
    assert all(entry.top_logprobs == [] for entry in content)
    with pytest.raises(openai.BadRequestError) as e:
        chat(api, top_logprobs=2)
    assert e.value.param == "top_logprobs"


@pytest.mark.parametrize("stop", [None, "zzzz"])
def test_chat_stream_has_each_token_once(api: openai.OpenAI, stop: Any):
    ask = {"logprobs": True, "top_logprobs": 2, "stop": stop}
    whole = chat(api, **ask).choices[0].logprobs.content
    streamed = []
    for chunk in chat(api, **ask, stream=True):
        logprobs = chunk.choices[0].logprobs
        streamed += logprobs.content if logprobs else []
    assert streamed == whole


@pytest.mark.parametrize("name", ["logprobs", "n_probs"])
def test_completions(tiny: Server, name: str):
    answer = http.complete(tiny, "ab", max_tokens=16, ignore_eos=True,
                           **{name: 3})
    logprobs = answer["choices"][0]["logprobs"]
    lengths = {len(logprobs[key]) for key in (
        "tokens", "token_logprobs", "top_logprobs", "text_offset")}
    assert lengths == {16}
    for value, top in zip(logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert value == max(top.values()), "greedy"
        assert 2 <= len(top) <= 4, "two ids may spell the same"
    assert http.complete(tiny, "ab", max_tokens=1)["choices"][0]["logprobs"] is None


def test_completions_of_drawn_tokens(api: openai.OpenAI):
    """The token itself stands among its likeliest, wherever it ranks."""
    answer = api.completions.create(
        model="", prompt="ab", max_tokens=24, logprobs=1, temperature=2, seed=3,
        extra_body={"ignore_eos": True})
    logprobs = answer.choices[0].logprobs
    sizes = set()
    for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs,
                                 logprobs.top_logprobs):
        assert top[token] == value
        sizes.add(len(top))
    assert 2 in sizes, "some drawn token is not the likeliest"


@pytest.mark.parametrize("prompt", ["hello wörld", [3, 4, 5, 6]], ids=str)
def test_echo(tiny: Server, prompt: Any):
    """As lm-evaluation-harness reads it: a value for every token of the prompt
    but the first, and where the text of each begins."""
    ask = {"echo": True, "logprobs": 1}
    answer = http.complete(tiny, prompt, max_tokens=0, **ask)
    choice, count = answer["choices"][0], answer["usage"]["prompt_tokens"]
    logprobs = choice["logprobs"]
    assert answer["usage"]["completion_tokens"] == 0
    assert choice["finish_reason"] == "length"
    assert len(logprobs["token_logprobs"]) == count
    assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
    assert all(v < 0 for v in logprobs["token_logprobs"][1:])
    if isinstance(prompt, str):
        assert choice["text"] == prompt
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
        if not token.startswith("bytes:"):
            assert choice["text"][offset:offset + len(token)] == token
    more = http.complete(tiny, prompt, max_tokens=2, ignore_eos=True, **ask)
    longer = more["choices"][0]
    assert longer["text"].startswith(choice["text"])
    assert longer["logprobs"]["token_logprobs"][:count] == logprobs[
        "token_logprobs"]
    assert len(longer["logprobs"]["tokens"]) == count + 2


def test_echo_streams_the_prompt_first(tiny: Server):
    body = {"prompt": "hello", "temperature": 0, "max_tokens": 3, "echo": True,
            "logprobs": 0, "ignore_eos": True}
    whole = http.post(tiny, http.COMPLETIONS, body).json()["choices"][0]
    events = http.stream(tiny, http.COMPLETIONS, body)
    assert http.stream_text(events) == whole["text"]
    joined: dict[str, list] = {}
    for event in events:
        for choice in event["choices"]:
            for key, values in (choice["logprobs"] or {}).items():
                joined.setdefault(key, []).extend(values)
    assert joined == whole["logprobs"]


def test_max_tokens_0_without_echo(tiny: Server):
    answer = http.complete(tiny, "ab", max_tokens=0)
    assert answer["choices"][0]["text"] == ""
    assert answer["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize("path", [http.CHAT, http.COMPLETIONS])
def test_prompt_logprobs(tiny: Server, path: str):
    body: dict[str, Any] = {"max_tokens": 1, "prompt_logprobs": 2,
                            "return_token_ids": True}
    body |= ({"messages": MESSAGES} if path == http.CHAT
             else {"prompt": "hello you"})
    answer = http.post(tiny, path, body).json()
    holder = answer if path == http.CHAT else answer["choices"][0]
    entries = holder["prompt_logprobs"]
    ids = answer["prompt_token_ids"]
    assert len(entries) == len(ids) and entries[0] is None
    for token, entry in zip(ids[1:], entries[1:]):
        own = entry[str(token)]
        assert own["rank"] >= 1 and own["logprob"] < 0
        ranks = sorted(e["rank"] for e in entry.values())
        assert ranks[:2] == [1, 2] and len(entry) in (2, 3)
    error = http.refused(http.post(tiny, path, {**body, "stream": True}))
    assert error["param"] == "prompt_logprobs"


def test_never_is_a_number(tiny: Server):
    """JSON has no -infinity."""
    answer = http.complete(tiny, "ab", max_tokens=2, logprobs=20,
                           ignore_eos=True, logit_bias=[[0, False]])
    for value in answer["choices"][0]["logprobs"]["token_logprobs"]:
        assert -9999 <= value <= 0
