"""Every architecture through the whole server: the reference's greedy ids, and
again out of the cache."""

import pytest

from conftest import start
from support import http
from support.fixture_models import CASES, FIXTURES, reference
from support.show import report

QUANTUM = 64
pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("arch, kind", CASES)
def test_greedy_ids(arch: str, kind: str):
    want, _ = reference(arch, kind)
    snapshots = report(FIXTURES / arch / kind)["state"]["bytes_per_snapshot"] > 0
    prompt = want["input_ids"].tolist()
    ids = want["greedy_ids"].tolist()
    with start(FIXTURES / arch / kind, "-c", "1024", "--state-memory", "64MiB",
               log=f"{arch}-{kind}") as server:
        server.wait_ready()
        # With snapshots: at the last whole quantum before the end.
        again = len(prompt) - 1
        if snapshots:
            again -= again % QUANTUM
        for cached in (0, again):
            answer = http.complete(server, prompt, max_tokens=len(ids),
                                   ignore_eos=True)
            assert answer["choices"][0]["token_ids"] == ids
            assert answer["cache"]["memory_tokens"] == cached
        # The second turn: all that the first left, but for its last token.
        turn = prompt + ids + [7, 8, 9]
        answer = http.complete(server, turn, max_tokens=1)
        assert answer["cache"]["evaluated_tokens"] == 3 + 1
        said = http.chat(server, "Hello!", max_tokens=2, ignore_eos=True)
        assert said["usage"]["completion_tokens"] == 2
        server.check_end()
