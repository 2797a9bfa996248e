"""Writes small GGUF files, right or wrong on purpose.
Format: the gguf specification of ggml-org/ggml, version 3."""

import struct
from pathlib import Path
from typing import Any

# ggml's type numbers: elements a block, bytes a block.
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18),
         "Q4_1": (3, 32, 20), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144),
         "Q6_K": (14, 256, 210), "IQ4_XS": (23, 256, 136), "BF16": (30, 1, 2)}
ALIGNMENT = 32


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(v: Any) -> bytes:
    """Type number and value, as metadata has them."""
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    assert isinstance(v, list) and v
    inner = [value(x) for x in v]
    return (struct.pack("<I", 9) + inner[0][:4] + struct.pack("<Q", len(v))
            + b"".join(x[4:] for x in inner))


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each byte, in the order of its ids."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + n) for n in range(len(other))]


def small_metadata() -> dict[str, Any]:
    """One layer, width 256, the 256 bytes, one merge and an end."""
    tokens = [*byte_alphabet(), "ab", "<|end|>"]
    return {
        "general.architecture": "llama", "llama.block_count": 1,
        "llama.context_length": 512, "llama.embedding_length": 256,
        "llama.feed_forward_length": 256, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 4,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0, "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 257 + [3],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 257,
    }


def small_tensors(kind: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> (type, dimensions, fastest first); matrices are of `kind`."""
    matrices = {"token_embd": 258, **{f"blk.0.{n}": 256 for n in (
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up",
        "ffn_down")}}
    norms = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")
    return {**{f"{n}.weight": (kind, (256, rows)) for n, rows in matrices.items()},
            **{f"{n}.weight": ("F32", (256,)) for n in norms}}


def tensor_bytes(kind: str, shape: tuple[int, ...]) -> int:
    _, block, size = TYPES[kind]
    count = 1
    for n in shape:
        count *= n
    return -(-count // block) * size


def build(metadata: dict[str, Any],
          tensors: dict[str, tuple[str, tuple[int, ...]]], *,
          magic: bytes = b"GGUF", version: int = 3,
          tensor_count: int | None = None, data_size: int | None = None,
          first_offset: int = 0) -> bytes:
    """The file's bytes, its tensors zero. The keywords make it lie."""
    infos, offset = b"", first_offset
    for name, (kind, shape) in tensors.items():
        infos += (text(name) + struct.pack("<I", len(shape))
                  + struct.pack(f"<{len(shape)}Q", *shape)
                  + struct.pack("<IQ", TYPES[kind][0], offset))
        size = tensor_bytes(kind, shape)
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    head = (magic + struct.pack("<IQQ", version, len(tensors)
                                if tensor_count is None else tensor_count,
                                len(metadata))
            + b"".join(text(k) + value(v) for k, v in metadata.items()) + infos)
    head += bytes(-len(head) % ALIGNMENT)
    return head + bytes((offset - first_offset) if data_size is None
                        else data_size)


def write_small(path: Path, kind: str, **lies: Any) -> Path:
    path.write_bytes(build(small_metadata(), small_tensors(kind), **lies))
    return path
