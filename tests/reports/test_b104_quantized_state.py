"""B104: quantizing the state of layers with sliding windows crashed, or
corrupted it."""

import pytest

from reports.conftest import HYBRID, KV_MODES, Fixture
from serving import Server
from support import http
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

PROMPT = 64 + 500  # the window of the fixture that has one, and well past it
START = 512  # of the last mode
# Mean distance of the log-probabilities from those without quantization, which
# random weights make much of: 0.03 to 0.18 and 0.5 to 1.7 were measured.
MEAN_OFF = {"kv8": 0.25, "kv4": 2.0, "kv8-from-512": 0.01}


def prompt_logprobs(server: Server, prompt: list[int]) -> list[float]:
    answer = http.complete(server, prompt, max_tokens=1, echo=True, logprobs=1,
                           cache_prompt=False)
    return answer["choices"][0]["logprobs"]["token_logprobs"][1:PROMPT]


@pytest.mark.parametrize("arch", [HYBRID, "gemma4", "glm4_moe_lite"])
@pytest.mark.parametrize("mode", MEAN_OFF)
def test_past_the_window(fixture: Fixture, arch: str, mode: str):
    """Close to what is said without, and the same with reuse."""
    server = fixture(arch, "hf", *KV_MODES[mode])
    chat = fresh_ids(104, PROMPT)
    plain = prompt_logprobs(fixture(arch, "hf"), chat)
    quantized = prompt_logprobs(server, chat)
    off = [abs(a - b) for a, b in zip(plain, quantized)]
    assert 0 < sum(off) / len(off) < MEAN_OFF[mode]
    if mode == "kv8-from-512":
        assert max(off[:START - 1]) == 0, "what stands before is as it was"
    compared = Comparison()
    for turn in range(3):
        reply = ask(server, chat, max_tokens=24)
        compared.check(reply, cold(server, chat, max_tokens=24))
        if turn > 0:
            assert reply.evaluated <= 10 + 1
        chat = chat + reply.ids + fresh_ids(1040 + turn, 10)
    compared.check_ties()
