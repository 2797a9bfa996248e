"""B14, but for its restart (nothing is kept on a disk): saving a hybrid's cache
failed always, for one of its arrays had no rows."""

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

POOL = 4  # tokens to a row of the index


@pytest.mark.parametrize("kind", ["hf", "mlx-q4"])
def test_prompts_without_a_row_in_the_index(fixture: Fixture, kind: str):
    """One to five tokens, the first rows coming in the reply or behind it."""
    server = fixture(HYBRID, kind)
    compared = Comparison()
    for size in range(1, POOL + 2):
        chat = fresh_ids(1400 + size, size)
        for turn in range(6):
            reply = ask(server, chat, max_tokens=1 + turn % 2)
            if turn > 0:
                # The reply's last token has no row yet, and one is new.
                assert reply.cached == len(chat) - 2, (size, turn)
            compared.check(reply, cold(server, chat, max_tokens=1 + turn % 2))
            chat = chat + reply.ids + fresh_ids(size + turn, 1)
    compared.check_ties()
    log = server.log.read_text()
    assert " error " not in log and " warning " not in log
