"""B18: at temperature 0 the reply changed once the prompt was cached."""

from typing import Any

import pytest

from serving import Server
from support import http

QUESTION = ("Here is a list of towns: Athens, Bergen, Cork, Delft, Essen, "
            "Fargo, Genoa, Hanoi, Izmir, Jena, Kyoto, Lyon, Milan, Nice, Oslo. "
            * 6 + "Which of them lie by the sea? Tell me about each.")


def answer(server: Server) -> tuple[Any, int]:
    reply = http.chat(server, QUESTION, max_tokens=40, ignore_eos=True,
                      logprobs=True, top_logprobs=3)
    choice = reply["choices"][0]
    return ((choice["token_ids"], choice["logprobs"]),
            reply["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("name", ["smol", "tiny"])
def test_five_times_the_same(name: str, request: pytest.FixtureRequest):
    """The same ids, and the same bits of their log-probabilities."""
    server: Server = request.getfixturevalue(name)
    first, _ = answer(server)
    for _ in range(4):
        again, cached = answer(server)
        assert cached > 200, "it is the cached prompt that is asked about"
        assert again == first
