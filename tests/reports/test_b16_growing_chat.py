"""B16: with sliding windows, the hit rate fell to 0 for good after 10 to 20
turns, when the memory had filled up with the states of earlier ones."""

import pytest

from reports.conftest import Fixture
from support import metrics
from support.fixture_models import FIXTURES
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

TURNS, NEW = 40, 40


def test_forty_turns_in_a_small_memory(serve, fixture: Fixture):
    """And a stranger's prompt each turn, so that something has to go."""
    # Ten blocks: the chat at its end takes seven.
    probe = metrics.total(fixture("gemma4", "hf"), "reprise_block_bytes")
    server = serve(FIXTURES / "gemma4" / "hf", "--state-memory",
                   str(int(10.5 * probe)), "--parallel", "1")
    compared = Comparison()
    chat = fresh_ids(16, NEW)
    for turn in range(TURNS):
        reply = ask(server, chat, max_tokens=4)
        if turn > 2:
            assert reply.cached >= 0.5 * len(chat), turn
        if turn % 8 == 7:
            compared.check(reply, cold(server, chat, max_tokens=4))
        chat += reply.ids + fresh_ids(160 + turn, NEW - 4)
        ask(server, fresh_ids(1600 + turn, 300), max_tokens=1)
    assert metrics.total(server, "reprise_blocks_evicted_total") > TURNS
    compared.check_ties()
