"""Greedy replies with and without reuse, compared by one rule: the same ids,
but after a near tie of the reply that is right."""

import random
from dataclasses import dataclass, field
from typing import Any

from serving import Server
from support import http

NEAR_TIE = 1e-3
TEXT_IDS = range(480)  # of the small fixtures; special tokens come behind


def fresh_ids(seed: int, length: int) -> list[int]:
    """Ids that nobody sent who has another seed."""
    return random.Random(seed).choices(TEXT_IDS, k=length)


def fresh_text(seed: int, tokens: int) -> str:
    """Text of so many tokens: letters that nothing is merged with."""
    return "".join("QXZJKVWY"[i % 8] for i in fresh_ids(seed, tokens))


@dataclass
class Reply:
    ids: list[int]
    logprobs: list[float]
    gaps: list[float]  # from the best to the second, by position
    cached: int
    evaluated: int
    miss_reason: str | None


def ask(server: Server, prompt: Any, **more: Any) -> Reply:
    """A completion of `prompt`; it must succeed."""
    answer = http.complete(server, prompt, **{
        "max_tokens": 16, "ignore_eos": True, "logprobs": 5, **more})
    choice, cache = answer["choices"][0], answer["cache"]
    tops = [sorted(t.values()) for t in choice["logprobs"]["top_logprobs"]]
    return Reply(choice["token_ids"], choice["logprobs"]["token_logprobs"],
                 [t[-1] - t[-2] for t in tops], cache["memory_tokens"],
                 cache["evaluated_tokens"], cache["miss_reason"])


def ask_chat(server: Server, messages: list[dict[str, str]],
             **more: Any) -> Reply:
    """A chat's reply; it must succeed."""
    response = http.post(server, http.CHAT, {
        "messages": messages, "temperature": 0, "max_tokens": 16,
        "ignore_eos": True, "return_token_ids": True, "logprobs": True,
        "top_logprobs": 2, **more})
    assert response.status_code == 200, response.text
    answer = response.json()
    choice, cache = answer["choices"][0], answer["cache"]
    tokens = choice["logprobs"]["content"]
    tops = [[t["logprob"] for t in token["top_logprobs"]] for token in tokens]
    return Reply(choice["token_ids"], [t["logprob"] for t in tokens],
                 [first - second for first, second in tops],
                 cache["memory_tokens"], cache["evaluated_tokens"],
                 cache["miss_reason"])


def cold(server: Server, prompt: Any, **more: Any) -> Reply:
    """The same, from nothing: what every other has to say."""
    reply = ask(server, prompt, cache_prompt=False, **more)
    assert reply.cached == 0
    return reply


@dataclass
class Comparison:
    """Counts what it has seen; near ties must stay the exception."""
    tokens: int = 0
    near_ties: list[float] = field(default_factory=list)

    def check(self, got: Reply, want: Reply, tolerance: float = NEAR_TIE) -> None:
        """Ids, and log-probabilities as far as the ids agree."""
        assert len(got.ids) == len(want.ids)
        self.tokens += len(got.ids)
        for i, (a, b) in enumerate(zip(got.ids, want.ids)):
            if a != b:
                assert want.gaps[i] < tolerance, (
                    f"token {i} of {len(want.ids)} is {a}, not {b}; the two best "
                    f"lie {want.gaps[i]:.4f} apart", got, want)
                self.near_ties.append(want.gaps[i])
                return
            off = abs(got.logprobs[i] - want.logprobs[i])
            assert off < tolerance, (f"token {i}: a log-probability is off by "
                                     f"{off:.5f}", got, want)

    def check_ties(self) -> None:
        assert len(self.near_ties) <= max(1, 0.005 * self.tokens), self.near_ties
