"""B74: the template wrote BOS and the tokenizer added another."""

import pytest

from serving import Server
from support import http
from support.script_model import ScriptModel

BODY = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
        "{% endfor %}<|assistant|>")
MODEL = ScriptModel({"<|assistant|>": ["Hello"]})
BOS = MODEL.token("<|bos|>")


@pytest.mark.parametrize("template,add,expected", [
    ("{{ bos_token }}" + BODY, True, 1), ("{{ bos_token }}" + BODY, False, 1),
    ("<|bos|>" + BODY, True, 1), (BODY, False, 0)], ids=str)
def test_prompt_has_one_bos(script, monkeypatch, template: str, add: bool,
                            expected: int):
    if add:
        original = ScriptModel.__init__

        def with_post_processor(self, scripts):
            original(self, scripts)
            bos = {"SpecialToken": {"id": "<|bos|>", "type_id": 0}}
            sequence = {"Sequence": {"id": "A", "type_id": 0}}
            self.tokenizer["post_processor"] = {
                "type": "TemplateProcessing", "single": [bos, sequence],
                "pair": [bos, sequence, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<|bos|>": {
                    "id": "<|bos|>", "ids": [BOS], "tokens": ["<|bos|>"]}}}

        monkeypatch.setattr(ScriptModel, "__init__", with_post_processor)
    server: Server = script(
        {"<|assistant|>": ["Hello"]}, chat_template=template,
        bos_token="<|bos|>", add_bos_token=add)
    answer = http.chat(server, "hi")
    body = [MODEL.token(t) for t in ("<|user|>", "h", "i", "<|end|>",
                                     "<|assistant|>")]
    assert answer["prompt_token_ids"] == [BOS] * expected + body
    assert answer["usage"]["prompt_tokens"] == expected + len(body)
    assert answer["choices"][0]["message"]["content"] == "Hello"
