"""B02: a hybrid's first turn worked, and every cache hit crashed the engine."""

import pytest

from reports.conftest import HYBRID, Fixture
from support import http
from support.replies import Comparison, ask_chat, fresh_text

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("kind", ["hf", "mlx-q4", "mlx-q6", "mlx-q8"])
def test_three_turns(fixture: Fixture, kind: str):
    """Through the chat's template, which puts the conversation's thoughts
    elsewhere in the next turn."""
    server = fixture(HYBRID, kind)
    compared = Comparison()
    messages = [{"role": "system", "content": fresh_text(2, 100)}]
    before = 0
    for turn in range(3):
        messages.append({"role": "user", "content": fresh_text(20 + turn, 150)})
        reply = ask_chat(server, messages)
        # The prompt before ended in <think>, which an earlier reply has not.
        assert reply.cached >= before - 1 - 64
        before = reply.cached + reply.evaluated
        compared.check(reply, ask_chat(server, messages, cache_prompt=False))
        messages.append({"role": "assistant",
                         "content": fresh_text(200 + turn, 60)})
    compared.check_ties()
    http.serves(server)
