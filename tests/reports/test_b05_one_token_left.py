"""B05: the first token was wrong when exactly one was left behind the cached
part."""

import os

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

QUANTUM = 64
QUANTA = range(1, 21) if os.environ.get("REPRISE_SOAK") else (1, 2, 4, 9, 20)


@pytest.mark.parametrize("arch", [HYBRID, "glm4_moe_lite", "gemma4"])
def test_one_two_and_three_tokens_are_left(fixture: Fixture, arch: str):
    """Behind prompts that end at a quantum, or one token before."""
    server = fixture(arch, "hf")
    compared = Comparison()
    for size in (q * QUANTUM - before for q in QUANTA for before in (0, 1)):
        longer = fresh_ids(5000 + size, size + 3)
        ask(server, longer[:size], max_tokens=1)
        for left in (1, 2, 3):
            prompt = longer[:size + left]
            warm = ask(server, prompt, max_tokens=2)
            assert warm.cached >= size
            compared.check(warm, cold(server, prompt, max_tokens=2))
    compared.check_ties()
