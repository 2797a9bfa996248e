"""B57: a plain and a penalized request in one batch killed the generating
thread, while the server went on saying that it was well."""

import threading
from typing import Any

import pytest

from serving import Server
from support import http, metrics

WORDS = "one two three four five six seven eight nine ten "
PLAIN: dict[str, Any] = {"prompt": WORDS * 60, "max_tokens": 8,
                         "temperature": 0, "ignore_eos": True}
PENALIZED: dict[str, Any] = {
    "prompt": "The towns are " + WORDS * 2, "max_tokens": 24, "temperature": 0,
    "ignore_eos": True, "repetition_penalty": 1.3, "presence_penalty": 0.5,
    "logit_bias": {"28": -100, "30": 2}}


def text(server: Server, body: dict[str, Any]) -> str:
    response = http.post(server, http.COMPLETIONS, body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


@pytest.mark.parametrize("order", [(PLAIN, PENALIZED), (PENALIZED, PLAIN)],
                         ids=["plain-first", "penalized-first"])
def test_both_finish_as_alone(smol: Server, order: tuple[dict, dict]):
    fresh = {"cache_prompt": False}  # prefilled each time: they overlap
    alone = [text(smol, {**body, **fresh}) for body in order]
    replies: dict[int, str] = {}

    def ask(i: int) -> None:
        replies[i] = text(smol, {**order[i], **fresh})

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
    threads[0].start()
    # A fake model may be done before anybody looks.
    assert metrics.wait_for(
        lambda: metrics.total(smol, "reprise_requests_running") > 0
        or 0 in replies, 10)
    threads[1].start()
    for thread in threads:
        thread.join(timeout=120)
    assert [replies.get(i) for i in range(2)] == alone
    http.serves(smol)
    unbiased = text(smol, {**PENALIZED, "logit_bias": {},
                           "repetition_penalty": 1, "presence_penalty": 0})
    assert unbiased not in alone, "the parameters decided nothing"
