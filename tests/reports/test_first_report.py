"""The report that this server was begun for: on a model with recurrent state
every save of the cache failed, and each turn of a chat was computed whole."""

import os

import pytest

from reports.conftest import HYBRID, Fixture
from support.fixture_models import CASES
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

SOAK = bool(os.environ.get("REPRISE_SOAK"))
HELD = 20_000 if SOAK else 3_000
TURNS, APPENDED, REPLY = 20, 16, 8
# Of architecture: what a turn may evaluate beside its new tokens.
BESIDE = {"glm4_moe_lite": 1, "gemma4": 1, HYBRID: 1}
SIZES = (1, 2, 3, 700)


def test_a_long_chat_costs_what_a_short_one_does(fixture: Fixture):
    """Its tokens are really held when the last turns come."""
    server = fixture(HYBRID, "hf")
    compared = Comparison()
    chat = fresh_ids(HELD, 1_000)
    while len(chat) < HELD:
        reply = ask(server, chat, max_tokens=REPLY)
        chat = chat + reply.ids + fresh_ids(len(chat), 950 - REPLY)
    for turn in range(TURNS):
        reply = ask(server, chat, max_tokens=REPLY)
        if turn > 0:
            assert reply.evaluated <= APPENDED + BESIDE[HYBRID]
        if turn % 10 == 9:
            compared.check(reply, cold(server, chat, max_tokens=REPLY))
        chat = chat + reply.ids + fresh_ids(len(chat), APPENDED)
    assert len(chat) > HELD
    compared.check_ties()


@pytest.mark.parametrize("arch, kind", [c for c in CASES if c[0] in BESIDE])
def test_a_turn_costs_what_is_new_in_it(fixture: Fixture, arch: str, kind: str):
    """Prompts of any length; every reply is the one from nothing."""
    server = fixture(arch, kind)
    compared = Comparison()
    for size in SIZES:
        chat = fresh_ids(size, size)
        before = 0
        for turn in range(TURNS):
            reply = ask(server, chat, max_tokens=REPLY)
            if turn > 0:
                assert reply.evaluated <= len(chat) - before + BESIDE[arch]
                assert reply.cached + reply.evaluated == len(chat)
            if turn % 6 == 1 or SOAK:
                compared.check(reply, cold(server, chat, max_tokens=REPLY))
            before = len(chat) + REPLY
            chat = chat + reply.ids + fresh_ids(size + turn + 1, APPENDED)
    compared.check_ties()
    assert not [line for line in server.log.read_text().splitlines()
                if " error " in line or " warning " in line]
