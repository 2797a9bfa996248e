"""The small checkpoints under tests/fixtures, and their reference outputs."""

import json

import numpy as np
from safetensors.numpy import load_file

from serving import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
# Architecture and folder: "hf", "mlx-q4".
CASES = [(golden.parent.name, folder.name)
         for golden in sorted(FIXTURES.glob("*/golden.json"))
         for folder in sorted(golden.parent.iterdir())
         if (folder / "config.json").exists()]


def reference(arch: str, kind: str) -> tuple[dict[str, np.ndarray], float]:
    """The tensors, and the tolerance of logits."""
    golden = json.loads((FIXTURES / arch / "golden.json").read_text())
    if kind == "hf":
        return (load_file(FIXTURES / arch / "golden.safetensors"),
                golden["tolerance_abs_fp32"])
    return (load_file(FIXTURES / arch / kind / "golden_mlx.safetensors"),
            golden["mlx"][kind.removeprefix("mlx-")]["tolerance_abs"])
