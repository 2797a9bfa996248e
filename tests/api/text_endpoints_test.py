"""/tokenize, /detokenize and /apply-template."""

from typing import Any

import pytest

from serving import Server
from support import http

MESSAGES = [{"role": "developer", "content": "Be brief.<|im_end|>"},
            {"role": "user", "content": [{"type": "text", "text": "Hi, wörld"}]}]


def ask(server: Server, path: str, **body: Any) -> dict[str, Any]:
    response = http.post(server, path, body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("text", ["Hello, wörld 👩‍🚀", "", "<|im_start|>a"])
def test_there_and_back(smol: Server, text: str):
    said = ask(smol, "/tokenize", content=text)
    assert said["count"] == len(said["tokens"])
    back = ask(smol, "/detokenize", tokens=said["tokens"])
    assert back == {"content": text, "prompt": text}


def test_tokens_are_those_of_a_completion(tiny: Server):
    for text in ("Hello", "a<|end|>b"):
        answer = http.complete(tiny, text, max_tokens=1)
        for name in ("content", "prompt"):
            assert ask(tiny, "/tokenize", **{name: text})["tokens"] == (
                answer["prompt_token_ids"])


def test_pieces_and_strings(tiny: Server):
    said = ask(tiny, "/tokenize", content="ö", with_pieces=True)["tokens"]
    assert [p["piece"] for p in said] == [[0xC3], [0xB6]]
    said = ask(tiny, "/tokenize", prompt="hi", return_token_strs=True)
    assert said["token_strs"] == ["h", "i"]
    assert said["max_model_len"] == 1024


def test_special_names_may_stay_text(smol: Server):
    special = ask(smol, "/tokenize", content="<|im_end|>")["tokens"]
    text = ask(smol, "/tokenize", content="<|im_end|>",
               parse_special=False)["tokens"]
    assert special == [2] and 2 not in text and len(text) > 3


@pytest.mark.parametrize("more", [{}, {"add_generation_prompt": False}], ids=str)
def test_messages(smol: Server, more: dict[str, Any]):
    """The ids of messages are those of the chat, in which no client's text is
    a control token; the text alone cannot tell."""
    tokens = ask(smol, "/tokenize", messages=MESSAGES, **more)["tokens"]
    text = ask(smol, "/apply-template", messages=MESSAGES, **more)["prompt"]
    assert ask(smol, "/detokenize", tokens=tokens)["prompt"] == text
    if not more:
        chat = http.post(smol, http.CHAT, {
            "messages": MESSAGES, "max_tokens": 1, "return_token_ids": True})
        assert chat.json()["prompt_token_ids"] == tokens
        assert text.endswith("<|im_start|>assistant\n")
    assert tokens.count(2) == 2, "the template's two ends"
    assert ask(smol, "/tokenize", content=text)["tokens"].count(2) == 3


@pytest.mark.parametrize("path,body,param", [
    ("/tokenize", {}, "content"), ("/tokenize", {"content": 5}, "content"),
    ("/tokenize", {"content": "a", "prompt": "b"}, "prompt"),
    ("/tokenize", {"messages": []}, "messages"),
    ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
    ("/detokenize", {"tokens": [3, 10 ** 9]}, "tokens[1]"),
    ("/apply-template", {"messages": "x"}, "messages"),
    ("/apply-template", {"messages": MESSAGES, "add_generation_prompt": 1},
     "add_generation_prompt"),
], ids=str)
def test_faults_are_named(tiny: Server, path: str, body: dict, param: str):
    assert http.refused(http.post(tiny, path, body))["param"] == param
    assert http.post(tiny, path, b"{").status_code == 400
    http.serves(tiny)
