"""B98: a checkpoint of mixed bits failed with a shape mismatch, since the keys
of its quantization were not renamed along with its weights."""

import json
from pathlib import Path

import pytest

from conftest import start
from reports.conftest import HYBRID
from support.checkpoints import WEIGHTS, dequantized, load, variant
from support.fixture_models import FIXTURES
from support.replies import Comparison, cold, fresh_ids

pytestmark = pytest.mark.real_model

GROUP = 64


@pytest.mark.parametrize("arch", ["glm4_moe_lite", HYBRID])
def test_mixed_bits_are_their_dequantized_weights(arch: str, tmp_path: Path):
    """4 bits, with overrides of 6 and 8 under the modules' full names."""
    tensors, bits = load(FIXTURES / arch / "mlx-q4" / WEIGHTS), {}
    modules = sorted(n.removesuffix(".scales") for n in tensors
                     if n.endswith(".scales"))
    overrides = {}
    for i, module in enumerate(modules):
        bits[module] = (4, 6, 8)[i % 3]
        if bits[module] == 4:
            continue
        other = load(FIXTURES / arch / f"mlx-q{bits[module]}" / WEIGHTS)
        for part in ("weight", "scales", "biases"):
            tensors[f"{module}.{part}"] = other[f"{module}.{part}"]
        overrides[module] = {"group_size": GROUP, "bits": bits[module]}
    source = FIXTURES / arch / "mlx-q4"
    quantization = {**json.loads((source / "config.json").read_text())
                    ["quantization"], **overrides}
    mixed = variant(source, tmp_path / "mixed", tensors,
                    quantization=quantization,
                    quantization_config=quantization)
    plain = variant(source, tmp_path / "plain",
                    dequantized(tensors, bits, GROUP), quantization=None,
                    quantization_config=None)
    with (start(mixed, log=f"b98-{arch}-mixed") as a,
          start(plain, log=f"b98-{arch}-plain") as b):
        a.wait_ready()
        b.wait_ready()
        compared = Comparison()
        for seed in range(8):
            prompt = fresh_ids(980 + seed, 5 + 60 * seed)
            compared.check(cold(a, prompt), cold(b, prompt))
        compared.check_ties()
    assert {4, 6, 8} == set(bits.values())
