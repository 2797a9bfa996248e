"""B54: a row's answer depended on its neighbour's length."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import ask, cold, fresh_ids

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("arch", [HYBRID, "gemma4", "glm4_moe_lite"])
def test_short_beside_long(fixture: Fixture, arch: str):
    """The same bits as alone, first token and last."""
    server = fixture(arch, "hf")
    prompts = [fresh_ids(54 + size, size) for size in (3, 3, 12, 200, 2000)]
    alone = [cold(server, p) for p in prompts]
    together = threading.Barrier(len(prompts))

    def crowd(prompt: list[int], cache: bool):
        together.wait(timeout=30)
        return ask(server, prompt, cache_prompt=cache)

    with ThreadPoolExecutor(len(prompts)) as pool:
        for cache in (False, True, True):
            got = pool.map(lambda p: crowd(p, cache), prompts)
            for reply, want in zip(got, alone):
                assert reply.ids == want.ids
                assert reply.logprobs == want.logprobs
