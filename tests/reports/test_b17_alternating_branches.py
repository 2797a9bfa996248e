"""B17: a restore landed on an old grid point 8,192 tokens before, or failed and
freed everything."""

import os

import pytest

from reports.conftest import HYBRID, Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

PREFIX = 12_000 if os.environ.get("REPRISE_SOAK") else 3_000
BRANCH = 100


@pytest.mark.parametrize("arch", [HYBRID, "gemma4"])
def test_two_branches_ten_times(fixture: Fixture, arch: str):
    server = fixture(arch, "hf")
    prefix = fresh_ids(17, PREFIX)
    ends = [fresh_ids(170 + i, BRANCH) for i in range(2)]
    compared = Comparison()
    for visit in range(10):
        for i, end in enumerate(ends):
            prompt = prefix + end + fresh_ids(1700 + visit, visit)
            reply = ask(server, prompt)
            # The first of the second branch notices where they part.
            if visit > 0:
                assert reply.evaluated <= BRANCH + visit + 64, (visit, i)
            if visit in (1, 9):
                compared.check(reply, cold(server, prompt))
    # A third one goes on from there.
    prompt = prefix + fresh_ids(172, BRANCH)
    third = ask(server, prompt)
    assert third.evaluated <= BRANCH + 64
    compared.check(third, cold(server, prompt))
    compared.check_ties()
