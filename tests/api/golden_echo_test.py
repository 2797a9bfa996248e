"""`echo` and `logprobs` of the golden prompts against the log-softmax of the
reference's logits, alone and beside other requests."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from serving import ROOT, Server
from support import http

FIXTURES = ROOT / "tests" / "fixtures"

pytestmark = pytest.mark.real_model  # references are of real models


def golden_of(folder: Path) -> tuple[dict[str, np.ndarray], float]:
    """The reference's tensors and the largest difference of a logit."""
    about = json.loads((folder.parent / "golden.json").read_text())
    if folder.name == "hf":
        return (load_file(folder.parent / "golden.safetensors"),
                about["tolerance_abs_fp32"])
    return (load_file(folder / "golden_mlx.safetensors"),
            about["mlx"][folder.name.removeprefix("mlx-")]["tolerance_abs"])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def check(server: Server, golden: dict[str, np.ndarray], tolerance: float):
    ids = golden["input_ids"].tolist()
    answer = http.complete(server, ids, max_tokens=0, echo=True, logprobs=5,
                           prompt_logprobs=5)
    choice = answer["choices"][0]
    values = choice["logprobs"]["token_logprobs"]
    assert len(values) == len(ids) and values[0] is None
    expected = log_softmax(golden["logits"])
    checked = 0
    for position, row in zip(golden["positions"].tolist(), expected):
        if position + 1 == len(ids):
            continue  # of what would come next
        assert values[position + 1] == pytest.approx(
            row[ids[position + 1]], abs=tolerance, rel=0)
        for token, entry in choice["prompt_logprobs"][position + 1].items():
            assert entry["logprob"] == pytest.approx(
                row[int(token)], abs=tolerance, rel=0)
        best = max(choice["logprobs"]["top_logprobs"][position + 1].values())
        assert best == pytest.approx(row.max(), abs=tolerance, rel=0)
        checked += 1
    assert checked == len(golden["positions"]) - 1


MODELS = sorted(p.parent for p in FIXTURES.glob("*/*/config.json"))


@pytest.mark.parametrize("model", MODELS,
                         ids=lambda m: f"{m.parent.name}-{m.name}")
def test_echoed_logprobs_are_the_references(serve, model: Path):
    golden, tolerance = golden_of(model)
    server: Server = serve(model, "-c", "1024", "--state-memory", "64MiB",
                           "-np", "5")
    check(server, golden, tolerance)
    others: list[Any] = []

    def other(seed: int) -> None:
        prompt = np.random.default_rng(seed).integers(0, 480, 200).tolist()
        others.append(http.complete(server, prompt, max_tokens=64, logprobs=1,
                                    ignore_eos=True))

    threads = [threading.Thread(target=other, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    check(server, golden, tolerance)
    for thread in threads:
        thread.join(timeout=120)
    assert len(others) == 4
