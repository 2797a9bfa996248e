"""What a response says about reuse: `cache`, `timings`, `usage`; and that
`cache_prompt: false` neither reads nor publishes."""

import random
from typing import Any

import pytest

from conftest import TINY
from serving import Server
from support import http, metrics

CACHE_KEYS = {"memory_tokens", "disk_tokens", "remote_tokens",
              "evaluated_tokens", "miss_reason", "miss_position"}
TIMING_KEYS = {"cache_n", "prompt_n", "prompt_ms", "prompt_per_second",
               "predicted_n", "predicted_ms", "predicted_per_second",
               "queue_ms", "restore_ms"}


def fresh_prompt(seed: int, length: int) -> list[int]:
    """Ids that no other test sent."""
    return random.Random(seed).choices(range(480), k=length)


def check_counts(answer: dict[str, Any]) -> dict[str, Any]:
    cache, timings, usage = (answer[k] for k in ("cache", "timings", "usage"))
    assert set(cache) == CACHE_KEYS and TIMING_KEYS <= set(timings)
    cached = (cache["memory_tokens"] + cache["disk_tokens"]
              + cache["remote_tokens"])
    assert cached == usage["prompt_tokens_details"]["cached_tokens"]
    assert cached + cache["evaluated_tokens"] == usage["prompt_tokens"]
    assert timings["cache_n"] == cached
    assert timings["prompt_n"] == cache["evaluated_tokens"]
    assert timings["predicted_n"] == usage["completion_tokens"]
    assert (usage["total_tokens"]
            == usage["prompt_tokens"] + usage["completion_tokens"])
    assert timings["prompt_ms"] > 0 and timings["prompt_per_second"] > 0
    assert timings["queue_ms"] >= 0 and timings["restore_ms"] >= 0
    return cache


def test_repeat_is_reused_to_the_last_token(tiny: Server):
    prompt = fresh_prompt(1, 700)
    first = http.complete(tiny, prompt, max_tokens=4)
    cache = check_counts(first)
    # Prompts of other tests may begin with the same token.
    assert cache["memory_tokens"] == cache["miss_position"] < 4
    assert cache["miss_reason"] == "diverged"
    again = http.complete(tiny, prompt, max_tokens=4)
    cache = check_counts(again)
    assert cache["memory_tokens"] == 699 and cache["evaluated_tokens"] == 1
    assert cache["miss_reason"] is None, "a full hit has no miss"
    assert again["choices"][0]["token_ids"] == first["choices"][0]["token_ids"]


@pytest.mark.parametrize("keep", [1, 100, 255, 256, 257, 399, 512])
def test_divergence_is_found_to_the_token(tiny: Server, keep: int):
    prompt = fresh_prompt(1000 + keep, 600)
    http.complete(tiny, prompt, max_tokens=1)
    other = prompt[:keep] + [(i + 1) % 480 for i in prompt[keep:]]
    cache = check_counts(http.complete(tiny, other, max_tokens=1))
    assert cache["memory_tokens"] == keep
    assert cache["miss_reason"] == "diverged"
    assert cache["miss_position"] == keep


def test_reply_is_reused_in_the_next_turn(tiny: Server):
    prompt = fresh_prompt(2, 300)
    reply = http.complete(tiny, prompt, max_tokens=40,
                          ignore_eos=True)["choices"][0]["token_ids"]
    assert len(reply) == 40
    cache = check_counts(http.complete(tiny, [*prompt, *reply, 5, 6, 7]))
    assert cache["evaluated_tokens"] == 4, "3 new, and the last sampled one"


def test_cache_prompt_false_reads_nothing(tiny: Server):
    prompt = fresh_prompt(3, 300)
    first = http.complete(tiny, prompt, max_tokens=8)
    cold = http.complete(tiny, prompt, max_tokens=8, cache_prompt=False)
    cache = check_counts(cold)
    assert cache["memory_tokens"] == 0 and cache["evaluated_tokens"] == 300
    assert cache["miss_reason"] == "disabled"
    assert cold["choices"][0]["token_ids"] == first["choices"][0]["token_ids"]


def test_cache_prompt_false_publishes_nothing(tiny: Server):
    prompt = fresh_prompt(4, 300)
    http.complete(tiny, prompt, max_tokens=2, cache_prompt=False)
    cache = check_counts(http.complete(tiny, prompt, max_tokens=2))
    assert cache["memory_tokens"] == 0 and cache["miss_reason"] == "diverged"


def test_what_left_for_others_says_evicted(serve):
    server = serve(TINY, "-c", "1024", "--state-memory", "3MiB")
    first = fresh_prompt(5, 600)
    http.complete(server, first, max_tokens=1)
    for seed in range(6, 16):
        http.complete(server, fresh_prompt(seed, 600), max_tokens=1)
    cache = check_counts(http.complete(server, first, max_tokens=1))
    assert cache["memory_tokens"] < 599
    assert cache["miss_reason"] == "evicted"
    assert cache["miss_position"] == cache["memory_tokens"]


def test_stream_has_cache_and_timings_on_its_last_choice(tiny: Server):
    for path, body in (
            (http.CHAT, {"messages": [{"role": "user", "content": "hi"}]}),
            (http.COMPLETIONS, {"prompt": fresh_prompt(20, 30)})):
        events = http.stream(tiny, path, {
            **body, "max_tokens": 6, "ignore_eos": True,
            "stream_options": {"include_usage": True}})
        (last,) = [e for e in events if any(
            c["finish_reason"] for c in e["choices"])]
        check_counts({**last, "usage": events[-1]["usage"]})
        for event in events:
            if event is not last:
                assert not event.get("cache") and not event.get("timings")


def test_token_ids_in_a_stream_are_those_without(tiny: Server):
    body = {"prompt": fresh_prompt(21, 20), "max_tokens": 12, "temperature": 0,
            "return_token_ids": True, "ignore_eos": True}
    whole = http.complete(tiny, **body)["choices"][0]["token_ids"]
    events = http.stream(tiny, http.COMPLETIONS, body)
    ids = [i for e in events for c in e["choices"]
           for i in c.get("token_ids") or []]
    assert ids == whole and len(ids) == 12


def test_metrics_count_the_same(tiny: Server):
    before = {k: metrics.total(tiny, k) for k in (
        "reprise_prompt_tokens_total", "reprise_cached_tokens_total")}
    prompt = fresh_prompt(22, 64)
    http.complete(tiny, prompt, max_tokens=1)
    http.complete(tiny, prompt, max_tokens=1)
    after = {k: metrics.total(tiny, k) for k in before}
    assert [after[k] - before[k] for k in before] == [128, 63]
