"""Models that think, through the official client: thoughts are no content."""

from typing import Any

import openai
import pytest

from reports.conftest import script  # noqa: F401: the fixture
from serving import Server
from support import http

# Prints its thoughts as published templates do, and opens or closes one for
# the reply where it is told to.
TEMPLATE = (
    "{%- for m in messages -%}<|{{ m.role }}|>"
    "{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}</think>"
    "{%- endif -%}{{ m.content }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>"
    "{%- if enable_thinking is defined and not enable_thinking -%}"
    "<think></think>{%- endif -%}"
    "{%- if forced -%}<think>{%- endif -%}{%- endif -%}")
REPLY: list[str | bytes] = ["<think>", "\n", "Two", " and", " two", "\n\n",
                            "</think>", " \n", "Four", "."]
CUT: list[str | bytes] = ["<th", "ink>", "Two and two", "</", "think", ">",
                          "Four."]
ASK: dict[str, Any] = {"model": "", "temperature": 0, "messages": [
    {"role": "user", "content": "x"}]}

Think = dict[str, Any]


def parts(api: openai.OpenAI, **more: Any) -> tuple[Any, Any]:
    """(thought, content) of a reply, whole and streamed alike."""
    answer = api.chat.completions.create(**ASK, extra_body=more)
    message = answer.choices[0].message
    whole = (getattr(message, "reasoning_content", None), message.content)
    assert getattr(message, "reasoning", None) == whole[0], "both names"
    streamed: list[Any] = [None, None]
    for chunk in api.chat.completions.create(**ASK, stream=True,
                                             extra_body=more):
        delta = chunk.choices[0].delta
        thought = getattr(delta, "reasoning_content", None)
        assert getattr(delta, "reasoning", None) == thought
        if thought is not None:
            assert streamed[1] is None, "no thought behind the content"
            streamed[0] = (streamed[0] or "") + thought
        if delta.content is not None:
            streamed[1] = (streamed[1] or "") + delta.content
    assert tuple(streamed) == whole
    return whole


@pytest.fixture
def thinker(script, client) -> openai.OpenAI:  # noqa: F811
    return client(script({"<|assistant|>": REPLY}, chat_template=TEMPLATE))


def test_thought_and_content(thinker: openai.OpenAI):
    assert parts(thinker) == ("Two and two", "Four.")
    answer = thinker.chat.completions.create(**ASK)
    usage = answer.usage
    assert usage.completion_tokens == len(REPLY) + 1
    assert usage.completion_tokens_details.reasoning_tokens == 5


@pytest.mark.parametrize("pieces,special", [
    (CUT, ()), (REPLY, ("<think>", "</think>")),
    (["\t", *REPLY], ())], ids=["cut", "special", "after-space"])
def test_marks_of_every_kind(script, client, pieces, special):  # noqa: F811
    """Over several tokens, as special tokens, behind white space."""
    server: Server = script({"<|assistant|>": pieces}, special,
                            chat_template=TEMPLATE)
    assert parts(client(server)) == ("Two and two", "Four.")


def test_a_prompt_that_opens_the_thought(thinker: openai.OpenAI):
    assert parts(thinker, chat_template_kwargs={"forced": True}) == (
        "Two and two", "Four.")


@pytest.mark.parametrize("more", [
    {"enable_thinking": False}, {"reasoning_effort": "none"},
    {"chat_template_kwargs": {"enable_thinking": False}}], ids=str)
def test_thinking_can_be_turned_off(thinker: openai.OpenAI, more: Think):
    """The prompt ends behind a thought: all of the reply is content."""
    assert parts(thinker, **more) == (None, " \nFour.")


def test_an_unclosed_thought_is_all_thought(thinker: openai.OpenAI):
    assert parts(thinker, max_tokens=4) == ("Two and", None)


def test_reasoning_format_none(thinker: openai.OpenAI):
    assert parts(thinker, reasoning_format="none") == (
        None, "".join(map(str, REPLY)))


def test_a_stop_string_ends_a_thought_too(thinker: openai.OpenAI):
    assert parts(thinker, stop=" two") == ("Two and", None)


def test_a_model_that_does_not_think(script, client):  # noqa: F811
    """Without such marks in its template, they are text like any other."""
    server: Server = script({"<|assistant|>": REPLY})
    assert parts(client(server)) == (None, "".join(map(str, REPLY)))


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "thinking"])
def test_thoughts_of_the_history_reach_the_template(thinker, name: str):
    """Under whichever name a client sends them back."""
    messages = [{"role": "user", "content": "x"},
                {"role": "assistant", "content": "y", name: "why"},
                {"role": "user", "content": "z"}]
    url = str(thinker.base_url).removesuffix("/v1/")
    text = thinker._client.post(url + "/apply-template",
                                json={"messages": messages}).json()["prompt"]
    assert "<|assistant|><think>why</think>y<|end|>" in text


@pytest.mark.parametrize("name,value", [
    ("enable_thinking", "no"), ("reasoning_format", "xml"),
    ("reasoning_effort", "a lot"), ("reasoning_effort", "high")])
def test_what_is_not_understood_is_named(tiny: Server, name: str, value: str):
    error = http.refused(http.post(
        tiny, http.CHAT, {**ASK, "max_tokens": 1, name: value}))
    assert error["param"] == name and str(value) in error["message"]
