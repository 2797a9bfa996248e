#!/usr/bin/env python3
"""A six-turn chat with a small real model, over HTTP. Shows what each turn
reused, and checks itself: what was computed once is not computed again, and
the replies are the committed ones (tests/fixtures/smollm2/transcript.json).

    scripts/demo.py            run and check
    scripts/demo.py --record   run, check the counts, write the transcript
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from serving import BINARY, ROOT, SMOLLM2, Server, ServerFailed

TRANSCRIPT = ROOT / "tests" / "fixtures" / "smollm2" / "transcript.json"
LOG = ROOT / "build" / "demo.log"
MAX_TOKENS = 48
BACK = "\r" if sys.stdout.isatty() else ""  # to the line's begin, to overwrite

# Chosen so that at every step of every reply the best logit is at least 0.05
# above the second (top2_gap_min in the transcript, computed by an independent
# float32 program): rounding cannot change the text, only a fault can.
QUESTIONS = [
    "What is the capital of France? Answer in one word.",
    "Which river flows through it?",
    "Name the four seasons.",
    "Write one sentence about the sea.",
    "What is 2 + 3?",
    "Name the planets of our solar system.",
]


@dataclass
class Turn:
    question: str
    reply: str = ""
    prompt_ids: list[int] = field(default_factory=list)
    reply_ids: list[int] = field(default_factory=list)
    finish_reason: str = ""
    cached: int = 0
    evaluated: int = 0
    ttft_ms: float = 0
    tokens_per_second: float = 0
    usage: dict[str, Any] = field(default_factory=dict)


def style(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


def say(text: str = "", end: str = "\n") -> None:
    print(text, end=end, flush=True)


def ask(server: Server, messages: list[dict[str, str]], question: str) -> Turn:
    """Sends the chat with one more question, shows the reply as it comes."""
    turn = Turn(question)
    say(style("1", f"> {question}"))
    start = time.monotonic()
    for chunk in server.stream("/v1/chat/completions", {
            "messages": [*messages, {"role": "user", "content": question}],
            "stream": True, "stream_options": {"include_usage": True},
            "return_token_ids": True, "temperature": 0,
            "max_tokens": MAX_TOKENS}):
        turn.prompt_ids = chunk.get("prompt_token_ids") or turn.prompt_ids
        turn.usage = chunk.get("usage") or turn.usage
        for choice in chunk["choices"]:
            turn.reply_ids += choice.get("token_ids") or []
            text = choice["delta"].get("content") or ""
            if text and not turn.reply:
                turn.ttft_ms = (time.monotonic() - start) * 1000
            turn.reply += text
            say(style("2", text), end="")
            if choice["finish_reason"]:
                finish(turn, choice["finish_reason"], chunk)
    say("\n")
    return turn


def finish(turn: Turn, reason: str, chunk: dict[str, Any]) -> None:
    turn.finish_reason = reason
    cache = chunk["cache"]
    turn.cached = (cache["memory_tokens"] + cache["disk_tokens"]
                   + cache["remote_tokens"])
    turn.evaluated = cache["evaluated_tokens"]
    turn.tokens_per_second = chunk["timings"]["predicted_per_second"]


def common_prefix(a: list[int], b: list[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i
    return min(len(a), len(b))


def count_faults(turns: list[Turn]) -> list[str]:
    """Where a turn computed more than is new in it, or the counts disagree."""
    faults = []
    for i, turn in enumerate(turns):
        prompt = len(turn.prompt_ids)
        seen = max((common_prefix(turn.prompt_ids, t.prompt_ids + t.reply_ids)
                    for t in turns[:i]), default=0)
        new = prompt - seen
        if not turn.reply_ids:
            faults.append(f"turn {i + 1}: no reply")
        if turn.evaluated + turn.cached != prompt:
            faults.append(f"turn {i + 1}: {turn.evaluated} evaluated + "
                          f"{turn.cached} cached is not the prompt's {prompt}")
        if not new <= turn.evaluated <= new + 1:
            faults.append(f"turn {i + 1}: {new} tokens are new, "
                          f"{turn.evaluated} were evaluated")
        usage = turn.usage
        if (usage.get("prompt_tokens") != prompt
                or usage.get("completion_tokens") != len(turn.reply_ids)
                or usage["prompt_tokens_details"]["cached_tokens"] != turn.cached):
            faults.append(f"turn {i + 1}: usage says something else: {usage}")
    return faults


def transcript(turns: list[Turn]) -> dict[str, Any]:
    keys = ("question", "reply", "reply_ids", "finish_reason")
    return {"model": SMOLLM2.name, "dtype": "float32",
            "max_tokens": MAX_TOKENS,
            "turns": [{k: asdict(t)[k] for k in keys} for t in turns]}


def text_faults(turns: list[Turn]) -> list[str]:
    """Where the chat differs from the committed one."""
    want, got = json.loads(TRANSCRIPT.read_text()), transcript(turns)
    faults = [f"the transcript was made with another {k}"
              for k in ("model", "dtype", "max_tokens")
              if want[k] != got[k]]
    if len(want["turns"]) != len(turns):
        faults.append(f"{len(turns)} turns, the transcript has "
                      f"{len(want['turns'])}")
    for i, (a, b) in enumerate(zip(want["turns"], got["turns"])):
        faults += [f"turn {i + 1}: {k} is {b[k]!r}, the transcript has {a[k]!r}"
                   for k in b if a[k] != b[k]]
    return faults


def print_table(turns: list[Turn]) -> None:
    say(style("1", "turn  prompt  from cache  evaluated  TTFT ms  decode tok/s"))
    for i, t in enumerate(turns):
        say(f"{i + 1:4}  {len(t.prompt_ids):6}  {t.cached:10}  {t.evaluated:9}"
            f"  {t.ttft_ms:7.0f}  {t.tokens_per_second:12.1f}")
    say()


def print_next_steps() -> None:
    binary, model = os.path.relpath(BINARY), os.path.relpath(SMOLLM2)
    say("Go on with:")
    say(f"  {binary} chat -m {model}")
    say(f"  {binary} serve -m {model}")
    say("  curl http://127.0.0.1:8080/v1/chat/completions "
        "-H 'Content-Type: application/json' \\\n"
        "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'")


def show_loading(seconds: float) -> None:
    if BACK or seconds == 0:
        say(f"{BACK}[demo] loading {SMOLLM2.name}: {seconds:.1f} s",
            end="" if BACK else "\n")


def converse() -> list[Turn]:
    LOG.parent.mkdir(exist_ok=True)
    with Server(SMOLLM2, "--dtype", "float32", log=LOG) as server:
        took = server.wait_ready(progress=show_loading)
        say(f"{BACK}[demo] {SMOLLM2.name} is served at {server.url} "
            f"after {took:.1f} s\n")
        messages: list[dict[str, str]] = []
        turns: list[Turn] = []
        for question in QUESTIONS:
            turn = ask(server, messages, question)
            turns.append(turn)
            messages += [{"role": "user", "content": question},
                         {"role": "assistant", "content": turn.reply}]
    return turns


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--record", action="store_true",
                        help="write the transcript that later runs must equal")
    record = parser.parse_args().record
    for needed, how in ((BINARY, "make build"), (SMOLLM2, "scripts/setup.sh")):
        if not needed.exists():
            say(f"[demo] {needed} is missing: run {how} first")
            return 1
    try:
        turns = converse()
    except ServerFailed as e:
        say(f"\n[demo] {e}\n[demo] the server's log is {LOG}")
        return 1
    print_table(turns)
    faults = count_faults(turns)
    if record and not faults:
        TRANSCRIPT.write_text(json.dumps(transcript(turns), indent=1) + "\n")
        say(f"[demo] wrote {TRANSCRIPT.relative_to(ROOT)}; the gaps between "
            "best and second\n       logit are not in it: check them, >= 0.05")
    else:
        faults += text_faults(turns)
    if faults:
        say("[demo] FAILED:\n  " + "\n  ".join(faults))
        return 1
    say("[demo] every turn evaluated its new tokens and at most one more; the "
        "replies equal\n       the committed transcript.\n")
    print_next_steps()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
