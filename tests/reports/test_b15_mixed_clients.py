"""B15: after some 35 requests all failed until the model was loaded again. This
one is the crowd; test_second_report.py has the report's own order."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from reports.conftest import KV_MODES, Fixture
from support import metrics
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

CLIENTS = 4
REQUESTS = 200 if os.environ.get("REPRISE_SOAK") else 60


@pytest.mark.parametrize("mode", KV_MODES)
def test_four_clients_of_mixed_lengths(fixture: Fixture, mode: str):
    """Half of what they send is what somebody sent before."""
    server = fixture("glm4_moe_lite", "mlx-q6", *KV_MODES[mode])
    rng = random.Random(15)
    prompts: list[list[int]] = []
    for i in range(REQUESTS):
        repeat = i % 2 == 1
        prompts.append(rng.choice(prompts) if repeat else
                       fresh_ids(1500, rng.choice((0, 200, 400)))
                       + fresh_ids(15_000 + i, rng.randint(1, 300)))
    with ThreadPoolExecutor(CLIENTS) as pool:
        replies = list(pool.map(lambda p: ask(server, p), prompts))
    said: dict[tuple[int, ...], list[int]] = {}
    compared = Comparison()
    for prompt, reply in zip(prompts, replies):
        if tuple(prompt) not in said:
            said[tuple(prompt)] = reply.ids
            if len(said) % 4 == 0:
                compared.check(reply, cold(server, prompt))
        assert reply.ids == said[tuple(prompt)]
    assert sum(r.cached for r in replies) > 0
    assert metrics.total(server, "reprise_steps_failed_total") == 0
    compared.check_ties()
