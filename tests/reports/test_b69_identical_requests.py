"""B69: identical greedy requests differed when they ran together."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.reuse_test import fresh_prompt
from serving import Server
from support import http


@pytest.mark.parametrize("cache_prompt", [False, True])
def test_eight_at_once_are_equal(tiny: Server, cache_prompt: bool):
    prompt = fresh_prompt(69 + cache_prompt, 333)
    alone = http.complete(tiny, prompt, max_tokens=48, ignore_eos=True,
                          cache_prompt=False)["choices"][0]["token_ids"]
    together = threading.Barrier(8)

    def ask(_: int) -> list[int]:
        together.wait(timeout=30)
        return http.complete(
            tiny, prompt, max_tokens=48, ignore_eos=True,
            cache_prompt=cache_prompt)["choices"][0]["token_ids"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [alone] * 8
    assert len(alone) == 48
