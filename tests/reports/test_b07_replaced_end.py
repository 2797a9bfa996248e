"""B07: models with sliding windows changed their answers after reuse."""

import pytest

from reports.conftest import Fixture
from support.replies import Comparison, ask, cold, fresh_ids

pytestmark = pytest.mark.real_model

WINDOW = 64  # of both fixtures


@pytest.mark.parametrize("arch", ["gemma4", "gemma4_moe"])
@pytest.mark.parametrize("kind", ["hf", "mlx-q4"])
def test_the_last_tokens_are_replaced(fixture: Fixture, arch: str, kind: str):
    server = fixture(arch, kind)
    compared = Comparison()
    for size in (WINDOW, WINDOW + 1, 3 * WINDOW, 3 * WINDOW + 7, 5 * WINDOW):
        prompt = fresh_ids(700 + size, size)
        compared.check(ask(server, prompt), cold(server, prompt))
        for cut in (1, 10, 60):
            other = prompt[:-cut] + fresh_ids(7000 + size + cut, cut)
            warm = ask(server, other)
            assert warm.cached >= len(prompt) - cut
            compared.check(warm, cold(server, other))
    compared.check_ties()
