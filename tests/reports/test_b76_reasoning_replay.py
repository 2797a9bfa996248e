"""B76: thoughts passed back were dropped or moved in later turns, and nothing
was reused. Where a template keeps them, all is; where it drops them, the
cache's report says from which token on."""

from typing import Any

import pytest

from serving import Server
from support import http

KEEPS = ("{%- for m in messages -%}<|{{ m.role }}|>"
         "{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}"
         "</think>{%- endif -%}{{ m.content }}<|end|>{%- endfor -%}"
         "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}")
DROPS = KEEPS.replace("{%- if m.reasoning_content -%}",
                      "{%- if m.reasoning_content and loop.last -%}")
# Single bytes that nothing merges: sent back, they are the ids that they were.
REPLY: list[str | bytes] = ["<think>", "z", "q", "</think>", "j", "x"]
SYSTEM = "You are an agent. " * 20
TURNS = 6


def replay(server: Server, name: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    answers = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"step {turn}"})
        answer = http.post(server, http.CHAT, {
            "messages": messages, "temperature": 0, "return_token_ids": True,
        }).json()
        message = answer["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("zq", "jx")
        messages.append({"role": "assistant", "content": message["content"],
                         name: message[name]})
        answers.append(answer)
    return answers


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_kept_history_is_reused(script, name: str):
    server: Server = script({"<|assistant|>": REPLY}, chat_template=KEEPS)
    for before, now in zip(replays := replay(server, name), replays[1:]):
        usage = now["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert cached >= before["usage"]["prompt_tokens"] + len(REPLY)
        if now in replays[2:]:
            assert cached / usage["prompt_tokens"] >= 0.9


def test_a_rewritten_history_is_reported(script):
    server: Server = script({"<|assistant|>": REPLY}, chat_template=DROPS)
    answers = replay(server, "reasoning_content")
    for before, now in zip(answers, answers[1:]):
        said = (before["prompt_token_ids"]
                + before["choices"][0]["token_ids"])
        prompt = now["prompt_token_ids"]
        differs = next(i for i, (a, b) in enumerate(zip(said, prompt)) if a != b)
        assert now["cache"]["miss_reason"] == "diverged"
        assert now["cache"]["miss_position"] == differs
        assert differs == len(before["prompt_token_ids"])
