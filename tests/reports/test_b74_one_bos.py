"""B74: the template wrote BOS and the tokenizer added another."""

from pathlib import Path
from typing import Any

import pytest

from serving import Server
from support import gguf_file, http
from support.script_model import ScriptModel

MODEL = ScriptModel({"<|assistant|>": ["Hello"]})
BOS = MODEL.token("<|bos|>")
BODY = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
        "{% endfor %}<|assistant|>")
CHAT = [MODEL.token(t) for t in ("<|user|>", "h", "i", "<|end|>",
                                 "<|assistant|>")]


def adds_bos() -> dict[str, Any]:
    """tokenizer.json's way to say that a text begins with BOS."""
    bos = {"SpecialToken": {"id": "<|bos|>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [bos, text],
            "pair": [bos, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|bos|>": {
                "id": "<|bos|>", "ids": [BOS], "tokens": ["<|bos|>"]}}}


def folder(serve, tmp_path: Path, template: str, add: bool) -> Server:
    model = ScriptModel({"<|assistant|>": ["Hello"]})
    if add:
        model.tokenizer["post_processor"] = adds_bos()
    return serve(model.write(tmp_path / "model", chat_template=template,
                             bos_token="<|bos|>", add_bos_token=add))


@pytest.mark.parametrize("template,add,expected", [
    ("{{ bos_token }}" + BODY, True, 1), ("{{ bos_token }}" + BODY, False, 1),
    ("<|bos|>" + BODY, True, 1), (BODY, False, 0)], ids=str)
def test_chat(serve, tmp_path: Path, template: str, add: bool, expected: int):
    answer = http.chat(folder(serve, tmp_path, template, add), "hi")
    assert answer["prompt_token_ids"] == [BOS] * expected + CHAT
    assert answer["usage"]["prompt_tokens"] == expected + len(CHAT)
    assert answer["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("prompt", ["hi", "<|bos|>hi"])
def test_completion(serve, tmp_path: Path, prompt: str, add: bool):
    server = folder(serve, tmp_path, BODY, add)
    expected = int(add or prompt.startswith("<|bos|>"))
    answer = http.complete(server, prompt, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == expected + len("hi")


@pytest.mark.parametrize("template", ["<|end|>{{ messages[0].content }}",
                                      "{{ messages[0].content }}"])
def test_gguf_that_adds_bos(serve, tmp_path: Path, template: str):
    """Its metadata says that every prompt begins with BOS, here <|end|>."""
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file.build(
        {**gguf_file.small_metadata(), "tokenizer.ggml.add_bos_token": True,
         "tokenizer.ggml.bos_token_id": 257,
         "tokenizer.chat_template": template}, gguf_file.small_tensors("F32")))
    answer = http.chat(serve(path), "hi", max_tokens=1)
    assert answer["prompt_token_ids"] == [257, *(
        gguf_file.byte_alphabet().index(c) for c in "hi")]
