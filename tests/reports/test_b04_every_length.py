"""B04: with reuse of recurrent state switched on, a hybrid's score in a test
of arithmetic fell to 0.15: the state was that of another position."""

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

QUANTUM = 64


def test_prompts_of_every_length(fixture: Fixture):
    """Each one, then the same with five tokens more."""
    server = fixture(HYBRID, "hf")
    compared = Comparison()
    for size in range(1, 2 * QUANTUM + 3):
        prompt = fresh_ids(4000 + size, size)
        longer = prompt + fresh_ids(4, 5)
        ask(server, prompt, max_tokens=1)
        warm = ask(server, longer, max_tokens=3)
        assert warm.cached == size, "the state at the prompt's end"
        compared.check(warm, cold(server, longer, max_tokens=3))
    compared.check_ties()
