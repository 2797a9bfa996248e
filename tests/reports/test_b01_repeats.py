"""B01: after cache hits, or beside others, a hybrid model answered with token
0 over and over."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import ask, cold, fresh_ids

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("kind", ["hf", "mlx-q4"])
def test_twenty_in_a_row_and_eight_at_once(fixture: Fixture, kind: str):
    """The bits of the reply from nothing, every time."""
    server = fixture(HYBRID, kind)
    prompt = fresh_ids(1, 3000)
    want = cold(server, prompt)
    assert len(set(want.ids)) > 4, "it says something"
    together = threading.Barrier(8)

    def crowd(_: int):
        together.wait(timeout=30)
        return ask(server, prompt)

    replies = [ask(server, prompt) for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        replies += pool.map(crowd, range(8))
    for i, reply in enumerate(replies):
        assert reply.ids == want.ids and reply.logprobs == want.logprobs, i
        if i > 0:
            assert reply.evaluated <= 64, i
