"""B10: turn two of every chat missed completely on hybrids: the snapshot stood
behind what the template adds for the reply, which the next turn has not."""

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask_chat, fresh_text

pytestmark = pytest.mark.real_model


def test_the_next_turn_leaves_the_suffix_out(fixture: Fixture):
    server = fixture(HYBRID, "hf")
    first = [{"role": "user", "content": fresh_text(10, 2000)}]
    reply = ask_chat(server, first)
    prompt = reply.cached + reply.evaluated
    # The template ends a prompt with <think>, and an earlier reply's begins
    # with </think>.
    second = first + [{"role": "assistant", "content": fresh_text(11, 20)},
                      {"role": "user", "content": fresh_text(12, 20)}]
    warm = ask_chat(server, second)
    assert warm.cached >= prompt - 1 - 64
    compared = Comparison()
    compared.check(warm, ask_chat(server, second, cache_prompt=False))


def test_another_question_to_one_system_prompt(fixture: Fixture):
    """The second conversation already goes on from where its first message
    begins, and so does one that edits an earlier turn."""
    server = fixture(HYBRID, "hf")
    system = {"role": "system", "content": fresh_text(13, 500)}
    compared = Comparison()
    for question in range(3):
        chat = [system, {"role": "user",
                         "content": fresh_text(130 + question, 150)}]
        reply = ask_chat(server, chat)
        if question > 0:
            assert reply.cached >= 502 and reply.evaluated <= 160, question
        compared.check(reply, ask_chat(server, chat, cache_prompt=False))
    chat += [{"role": "assistant", "content": fresh_text(136, 100)},
             {"role": "user", "content": fresh_text(137, 100)}]
    ask_chat(server, chat)
    chat[-1]["content"] = fresh_text(138, 100)
    edited = ask_chat(server, chat)
    assert edited.evaluated <= 110
    compared.check(edited, ask_chat(server, chat, cache_prompt=False))
    compared.check_ties()
