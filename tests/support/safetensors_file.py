"""Safetensors files of tensors that hold nothing but zeros: what a model's
files say, at any size, without its weights."""

import json
import math
import struct
from pathlib import Path
from typing import Any

BYTES = {"BF16": 2, "F32": 4, "U32": 4}
Tensors = dict[str, tuple[str, tuple[int, ...]]]  # name -> type, shape


def header_of(tensors: Tensors, begin: int = 0) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for name, (dtype, shape) in tensors.items():
        end = begin + math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [begin, end]}
        begin = end
    return header


def size_of(header: dict[str, Any]) -> int:
    return max(t["data_offsets"][1] for name, t in header.items()
               if name != "__metadata__")


def encode(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # data that can be used where it lies
    return struct.pack("<Q", len(text)) + text


def write(path: Path, tensors: Tensors) -> None:
    """The data is a hole of the file, which takes no room on a disk."""
    header = header_of(tensors)
    head = encode(header)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size_of(header))


def add(path: Path, tensors: Tensors) -> None:
    """Puts further ones behind those of a small file."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    begin = len(data) - start
    header.update(header_of(tensors, begin))
    more = bytes(size_of(header) - begin)
    path.chmod(0o644)
    path.write_bytes(encode(header) + data[start:] + more)


# With their data: name -> type, shape, bytes.
Loaded = dict[str, tuple[str, tuple[int, ...], bytes]]


def load(path: Path) -> Loaded:
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], tuple(t["shape"]),
                   data[start + t["data_offsets"][0]:
                        start + t["data_offsets"][1]])
            for name, t in header.items()}


def save(path: Path, tensors: Loaded) -> None:
    header: dict[str, Any] = {}
    begin = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
    path.write_bytes(encode(header)
                     + b"".join(data for _, _, data in tensors.values()))
