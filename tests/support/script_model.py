"""A tiny checkpoint that says what we choose.

The outputs of attention and MLP are zero, so the residual stream is the last
token's embedding and the head is a table from one token to the next. A reply
is then exact and known, which is what tests of streams, stop strings and
routing need. It has no working attention: it proves nothing about cached
state. Each token has one successor, so a piece appears once over all scripts.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from conftest import TINY
from support.gguf_file import byte_alphabet

WIDTH = 256
END = "<|endoftext|>"


def spelled(piece: bytes) -> str:
    """Bytes as a byte-level vocabulary spells them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = [*plain, *(b for b in range(256) if b not in plain)]
    alphabet = dict(zip(order, byte_alphabet()))
    return "".join(alphabet[b] for b in piece)


def key_of(piece: str | bytes) -> str:
    return spelled(piece.encode() if isinstance(piece, str) else piece)


class ScriptModel:
    """scripts: a token that ends a prompt -> the pieces of the reply to it.
    A piece is a string or bytes (a part of a character), one token each; after
    the last comes the end of the reply. The chat template ends its prompts
    with "<|assistant|>". `special`: added tokens that become special ones."""

    def __init__(self, scripts: dict[str, list[str | bytes]],
                 special: tuple[str, ...] = ()):
        self.tokenizer = json.loads((TINY / "tokenizer.json").read_text())
        self.config = json.loads((TINY / "tokenizer_config.json").read_text())
        self.vocabulary: dict[str, int] = self.tokenizer["model"]["vocab"]
        added = self.tokenizer["added_tokens"]
        self.ids = {t["content"]: -1 for t in added}
        for token in added:
            token["special"] |= token["content"] in special
        self.extend([p for pieces in scripts.values() for p in pieces])
        for token in added:  # their ids follow the vocabulary's
            token["id"] = len(self.vocabulary) + added.index(token)
            self.ids[token["content"]] = token["id"]
        self.size = len(self.vocabulary) + len(added)
        self.successor: dict[int, int] = {}
        self.scripts: dict[str, list[int]] = {}
        for prompt, pieces in scripts.items():
            ids = [self.token(prompt), *map(self.token, pieces), self.ids[END]]
            for a, b in zip(ids, ids[1:]):
                assert a not in self.successor, f"{pieces}: a token comes twice"
                self.successor[a] = b
            self.scripts[prompt] = ids[1:]

    def extend(self, pieces: list[str | bytes]) -> None:
        """New pieces join the vocabulary without a merge, so that no text is
        tokenized to them."""
        for piece in pieces:
            if piece not in self.ids:
                self.vocabulary.setdefault(key_of(piece), len(self.vocabulary))

    def token(self, piece: str | bytes) -> int:
        if isinstance(piece, str) and piece in self.ids:
            return self.ids[piece]
        return self.vocabulary[key_of(piece)]

    def weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        embed = rng.standard_normal((self.size, WIDTH), dtype=np.float32)
        head = np.zeros_like(embed)
        for token, after in self.successor.items():
            head[after] += embed[token]
        result = {"model.embed_tokens.weight": embed, "lm_head.weight": head,
                  "model.norm.weight": np.ones(WIDTH, np.float32)}
        layer = "model.layers.0."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            result[f"{layer}{norm}.weight"] = np.ones(WIDTH, np.float32)
        for name, shape in {"self_attn.q_proj": (WIDTH, WIDTH),
                            "self_attn.k_proj": (128, WIDTH),
                            "self_attn.v_proj": (128, WIDTH),
                            "mlp.gate_proj": (64, WIDTH),
                            "mlp.up_proj": (64, WIDTH)}.items():
            result[f"{layer}{name}.weight"] = rng.standard_normal(
                shape, dtype=np.float32) / 16
        result[f"{layer}self_attn.o_proj.weight"] = np.zeros(
            (WIDTH, WIDTH), np.float32)
        result[f"{layer}mlp.down_proj.weight"] = np.zeros(
            (WIDTH, 64), np.float32)
        return result

    def margin(self) -> float:
        """The least distance between the chosen logit and the next one."""
        w = self.weights()
        embed = w["model.embed_tokens.weight"]
        unit = embed / np.sqrt((embed ** 2).mean(axis=1, keepdims=True))
        logits = unit[list(self.successor)] @ w["lm_head.weight"].T
        rows = np.arange(len(logits))
        best = logits[rows, list(self.successor.values())].copy()
        logits[rows, list(self.successor.values())] = -np.inf
        return float((best - logits.max(axis=1)).min())

    def write(self, folder: Path, **config: Any) -> Path:
        """Writes the checkpoint; `config` are keys of tokenizer_config.json."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.weights(), folder / "model.safetensors")
        files = {"config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "vocab_size": self.size, "hidden_size": WIDTH,
            "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
            "hidden_act": "silu", "rms_norm_eps": 1e-5,
            "max_position_embeddings": 4096, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "eos_token_id": self.ids[END],
            "torch_dtype": "float32"},
            "tokenizer.json": self.tokenizer,
            "tokenizer_config.json": {**self.config, **config},
            # For the program with a fake model (fake_model_runner.cpp).
            "script.json": list(self.successor.items())}
        for name, data in files.items():
            (folder / name).write_text(json.dumps(data))
        return folder

    def text_of(self, ids: list[int]) -> str:
        """Ids as text, special tokens spelled out."""
        names = {i: t.encode() for t, i in self.ids.items()}
        back = {spelled(bytes([b])): b for b in range(256)}
        for key, i in self.vocabulary.items():
            names[i] = bytes(back[c] for c in key)
        return b"".join(names[i] for i in ids).decode()
