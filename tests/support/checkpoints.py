"""Variants of a small checkpoint, written beside it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from support.safetensors_file import Loaded, load, save

WEIGHTS = "model.safetensors"


def variant(source: Path, folder: Path, tensors: Loaded,
            **config: Any) -> Path:
    """Its texts, these tensors in one file, and keys of config.json."""
    folder.mkdir()
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja") and "index" not in file.name:
            shutil.copyfile(file, folder / file.name)
    read = json.loads((source / "config.json").read_text())
    read.update(config)
    read = {key: value for key, value in read.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(read))
    save(folder / WEIGHTS, tensors)
    return folder


def floats(tensor: tuple[str, tuple[int, ...], bytes]) -> np.ndarray:
    dtype, shape, data = tensor
    if dtype == "BF16":
        words = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return words.view(np.float32).reshape(shape)
    return np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[dtype]
                         ).astype(np.float32).reshape(shape)


def dequantized(tensors: Loaded, bits: dict[str, int], group: int) -> Loaded:
    """MLX's affine modules as plain float32 matrices; bits by module."""
    out: Loaded = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if module + ".scales" not in tensors:
            out[name] = tensor
        elif part == "weight":
            rows = tensor[1][:-1]
            # Values follow each other without gaps, the lowest bit first.
            ones = np.unpackbits(np.frombuffer(tensor[2], np.uint8),
                                 bitorder="little").reshape(-1, bits[module])
            values = ones @ (1 << np.arange(bits[module], dtype=np.int64))
            scales, biases = (floats(tensors[f"{module}.{p}"])[..., None]
                              for p in ("scales", "biases"))
            grouped = values.reshape(*scales.shape[:-1], group)
            matrix = (grouped * scales + biases).astype(np.float32)
            matrix = matrix.reshape(*rows, -1)
            out[name] = ("F32", matrix.shape, matrix.tobytes())
    return out


__all__ = ["WEIGHTS", "dequantized", "floats", "load", "variant"]
