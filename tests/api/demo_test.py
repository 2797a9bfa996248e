"""The demo, as a user runs it; and that its own checks can fail."""

import subprocess
import sys
from dataclasses import replace

import pytest

import demo
from serving import ROOT


def turns() -> list[demo.Turn]:
    def turn(prompt: list[int], reply: list[int], cached: int) -> demo.Turn:
        return demo.Turn(
            "q", "r", prompt, reply, "stop", cached, len(prompt) - cached,
            usage={"prompt_tokens": len(prompt), "completion_tokens": len(reply),
                   "prompt_tokens_details": {"cached_tokens": cached}})

    return [turn([1, 2, 3], [4, 5], 0), turn([1, 2, 3, 4, 5, 6, 7], [8], 4)]


@pytest.mark.real_model
def test_demo_passes():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "demo.py"],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()
            if line.strip()[:1].isdigit()]
    assert [int(r[0]) for r in rows] == [1, 2, 3, 4, 5, 6]
    assert all(int(r[2]) + int(r[3]) == int(r[1]) for r in rows)
    assert "reprise chat" in done.stdout and "curl" in done.stdout


def test_right_counts_have_no_faults():
    assert demo.count_faults(turns()) == []


@pytest.mark.parametrize("change,word", [
    ({"cached": 3, "evaluated": 4}, "are new"),
    ({"cached": 6, "evaluated": 1}, "are new"),
    ({"evaluated": 4}, "is not the prompt's"),
    ({"reply_ids": []}, "no reply"),
    ({"usage": {**turns()[1].usage, "prompt_tokens": 6}}, "usage"),
])
def test_wrong_counts_are_faults(change: dict, word: str):
    first, second = turns()
    assert word in "\n".join(demo.count_faults([first, replace(second, **change)]))


def test_other_texts_are_faults():
    assert any("transcript has" in f for f in demo.text_faults(turns()))
