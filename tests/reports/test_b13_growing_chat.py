"""B13: every save was skipped, since no snapshot stood where it was looked for:
20 turns took the same 9 seconds each."""

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model


def test_what_is_cached_grows_with_every_turn(fixture: Fixture):
    server = fixture(HYBRID, "hf")
    chat = fresh_ids(13, 1000)
    compared = Comparison()
    cached = 0
    for turn in range(10):
        reply = ask(server, chat)
        if turn > 0:
            assert reply.cached > cached and reply.evaluated <= 40 + 1
            cached = reply.cached
        compared.check(reply, cold(server, chat))
        chat = chat + reply.ids + fresh_ids(130 + turn, 40)
    compared.check_ties()
