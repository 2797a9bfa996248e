"""Missing, empty, truncated and lying model files: the process ends with one
clear line and a non-zero status, and /health was never 200."""

import json
import shutil
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, start
from serving import ROOT, SMOLLM2
from support import gguf_file, http

Break = Callable[[Path], object]


def edit(file: str, **changes: Any) -> Break:
    """Sets keys of a JSON file; a value of None removes the key."""
    def act(folder: Path) -> None:
        data = json.loads((folder / file).read_text())
        data.update(changes)
        data = {k: v for k, v in data.items() if v is not None}
        (folder / file).write_text(json.dumps(data))
    return act


def write(file: str, data: bytes) -> Break:
    return lambda folder: (folder / file).write_bytes(data)


def remove(file: str) -> Break:
    return lambda folder: (folder / file).unlink()


def cut(file: str, keep: float) -> Break:
    def act(folder: Path) -> None:
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[:int(len(data) * keep)])
    return act


def tensors(change: Callable[[dict[str, Any]], None]) -> Break:
    """Changes the header of model.safetensors and leaves its data."""
    def act(folder: Path) -> None:
        file = folder / "model.safetensors"
        data = file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        change(header)
        text = json.dumps(header).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])
    return act


def one(header: dict[str, Any]) -> dict[str, Any]:
    return header["model.layers.1.mlp.up_proj.weight"]


def set_one(**fields: Any) -> Break:
    return tensors(lambda h: one(h).update(fields))


INDEX = json.dumps({"weight_map": {
    name: "model-00001-of-00002.safetensors"
    for name in ("model.norm.weight", "of.another.model")}}).encode()
UP = "up_proj"
FOLDERS: dict[str, tuple[Break, str]] = {
    "no config": (remove("config.json"), "config.json"),
    "empty config": (write("config.json", b""), "config.json"),
    "config is not JSON": (write("config.json", b"{"), "config.json"),
    "config is an array": (write("config.json", b"[1]"), "config.json"),
    "no model type": (edit("config.json", model_type=None), "model_type"),
    "unknown model type": (edit("config.json", model_type="warp"), "warp"),
    "no hidden size": (edit("config.json", hidden_size=None), "hidden_size"),
    "hidden size lies": (edit("config.json", hidden_size=256), "128"),
    "hidden size is text": (edit("config.json", hidden_size="x"), "hidden_size"),
    "negative heads": (edit("config.json", num_attention_heads=-4),
                       "num_attention_heads"),
    "zero heads": (edit("config.json", num_key_value_heads=0),
                   "num_key_value_heads"),
    "heads do not divide": (edit("config.json", num_key_value_heads=3), "3"),
    "another activation": (edit("config.json", hidden_act="gelu"), "silu"),
    "another kind of attention": (
        edit("config.json", layer_types=["sliding_attention"] * 3),
        "full_attention"),
    "heads that rotate in part": (
        edit("config.json", partial_rotary_factor=0.5),
        "partial_rotary_factor"),
    "biases that are not there": (edit("config.json", attention_bias=True),
                                  "self_attn.q_proj.bias"),
    "rope without its factor": (
        edit("config.json", rope_scaling={"rope_type": "linear"}), "factor"),
    "too many layers": (edit("config.json", num_hidden_layers=9),
                        "model.layers.3."),
    "absurd layers": (edit("config.json", num_hidden_layers=10 ** 12),
                      "num_hidden_layers"),
    "vocabulary lies": (edit("config.json", vocab_size=100_000), "512"),
    "no weights": (remove("model.safetensors"), "safetensors"),
    "empty weights": (write("model.safetensors", b""), "model.safetensors"),
    "weights cut at the start": (cut("model.safetensors", 0.0001),
                                 "model.safetensors"),
    "weights cut in the middle": (cut("model.safetensors", 0.5),
                                  "model.safetensors"),
    "weights short of one percent": (cut("model.safetensors", 0.99),
                                     "model.safetensors"),
    "weights are text": (write("model.safetensors", b"hello " * 1000),
                         "model.safetensors"),
    "a huge header": (write("model.safetensors", struct.pack("<Q", 2 ** 62)),
                      "model.safetensors"),
    "a tensor is missing": (tensors(
        lambda h: h.pop("model.layers.1.mlp.up_proj.weight")), UP),
    "a shape lies": (set_one(shape=[192, 256]), UP),
    "a shape is negative": (set_one(shape=[-192, -128]), UP),
    "a shape overflows": (set_one(shape=[2 ** 62, 2 ** 62]), UP),
    "offsets go past the end": (set_one(data_offsets=[0, 2 ** 50]), UP),
    "offsets go backwards": (set_one(data_offsets=[49152, 0]), UP),
    "an unknown type": (set_one(dtype="F7"), "F7"),
    "an index names an absent shard": (
        write("model.safetensors.index.json", INDEX), "00001-of-00002"),
    "no tokenizer": (remove("tokenizer.json"), "tokenizer.json"),
    "empty tokenizer": (write("tokenizer.json", b""), "tokenizer.json"),
    "tokenizer cut": (cut("tokenizer.json", 0.5), "tokenizer.json"),
    "broken template": (edit("tokenizer_config.json",
                             chat_template="a\nb\n{% if %}"), "line 3"),
}


def gguf(**lies: Any) -> Callable[[Path], object]:
    return lambda path: gguf_file.write_small(path, "Q4_0", **lies)


def gguf_type(kind: str) -> Callable[[Path], object]:
    return lambda path: gguf_file.write_small(path, kind)


def gguf_metadata(**changes: Any) -> Callable[[Path], object]:
    def act(path: Path) -> None:
        data = {**gguf_file.small_metadata(),
                **{k.replace("__", "."): v for k, v in changes.items()}}
        data = {k: v for k, v in data.items() if v is not None}
        path.write_bytes(gguf_file.build(data, gguf_file.small_tensors("F32")))
    return act


def gguf_of(architecture: str) -> Callable[[Path], object]:
    """The same model under another architecture's name."""
    return lambda path: path.write_bytes(gguf_file.build(
        {k.replace("llama.", architecture + "."):
         architecture if k == "general.architecture" else v
         for k, v in gguf_file.small_metadata().items()},
        gguf_file.small_tensors("F32")))


def smollm2_cut(size: int) -> Callable[[Path], object]:
    def act(path: Path) -> None:
        with open(SMOLLM2, "rb") as source:
            path.write_bytes(source.read(size))
    return act


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty file": (lambda path: path.write_bytes(b""), "empty"),
    "not a model": (lambda path: path.write_bytes(b"hello" * 99),
                    "model.gguf"),
    "wrong magic": (gguf(magic=b"GGML"), "model.gguf"),
    "version 99": (gguf(version=99), "99"),
    "too many tensors": (gguf(tensor_count=2 ** 60), "model.gguf"),
    "one tensor more": (gguf(tensor_count=12), "model.gguf"),
    "no data": (gguf(data_size=0), "model.gguf"),
    "offsets past the end": (gguf(first_offset=1 << 40), "model.gguf"),
    "cut in the metadata": (smollm2_cut(1 << 18), "model.gguf"),
    "cut in the data": (smollm2_cut(40 << 20), "model.gguf"),
    "no architecture": (gguf_metadata(general__architecture=None),
                        "general.architecture"),
    "unknown architecture": (gguf_metadata(general__architecture="warp"),
                             "warp"),
    "an architecture of folders only": (gguf_of("gemma4"), "GGUF"),
    "no vocabulary": (gguf_metadata(tokenizer__ggml__tokens=None),
                      "tokenizer.ggml"),
    "token types lie": (gguf_metadata(tokenizer__ggml__token_type=[1, 1]),
                        "token_type"),
    "unknown tokenizer": (gguf_metadata(tokenizer__ggml__model="weird"),
                          "weird"),
    **{f"type {kind}": (gguf_type(kind), kind)
       for kind in ("Q4_K", "Q6_K", "IQ4_XS")},
}


# Found out while weights are loaded, by the architecture or by MLX's types.
FOUND_WHILE_LOADING = {
    "no model type", "unknown model type", "hidden size lies",
    "heads do not divide", "too many layers", "vocabulary lies",
    "a tensor is missing", "an index names an absent shard",
    "another activation", "another kind of attention",
    "heads that rotate in part", "biases that are not there",
    "rope without its factor",
    "unknown architecture", "an architecture of folders only", "type Q4_K", "type Q6_K", "type IQ4_XS"}
assert FOUND_WHILE_LOADING <= FOLDERS.keys() | FILES.keys()


def marked(names: Iterable[str]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.real_model)
            if n in FOUND_WHILE_LOADING else n for n in names]


def check_refused(model: Path, hint: str, name: str) -> None:
    server = start(model, "-c", "256", "--state-memory", "16MiB",
                   log="refused-" + name.replace(" ", "-"), status=1)
    seen: set[int] = set()
    end = time.monotonic() + 60
    while (server.process.poll() is None and 200 not in seen
           and time.monotonic() < end):
        seen.add(server.health())
        time.sleep(0.01)
    still_there = server.process.poll() is None
    status = server.stop()
    log = server.log.read_text(errors="replace")
    assert not still_there, f"it did not end; /health was {seen}\n{log}"
    assert status == 1, f"status {status} (negative: a signal)\n{log}"
    assert seen <= {0, 503}, f"/health was {seen}"
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    assert len(lines) == 1, f"not one clear line:\n{log}"
    assert hint in lines[0], f"no {hint!r} in: {lines[0]}"


def check_folder(model: Path, folder: Path, damage: Break, hint: str,
                 name: str) -> None:
    shutil.copytree(model, folder)
    for file in folder.rglob("*"):
        file.chmod(0o644)
    damage(folder)
    check_refused(folder, hint, name)


@pytest.mark.parametrize("name", marked(FOLDERS))
def test_broken_folder(tmp_path: Path, name: str):
    damage, hint = FOLDERS[name]
    check_folder(TINY, tmp_path / "model", damage, hint, name)


QWEN3: dict[str, tuple[Break, str]] = {
    "a window": (edit("config.json", use_sliding_window=True,
                      sliding_window=64), "use_sliding_window"),
    "a head norm is missing": (tensors(
        lambda h: h.pop("model.layers.2.self_attn.k_norm.weight")), "k_norm"),
    "a bias that is not asked for": (tensors(
        lambda h: h.update({"model.layers.0.self_attn.q_proj.bias":
                            h.pop("model.layers.0.self_attn.q_norm.weight")})),
        "attention_bias"),
}


@pytest.mark.real_model
@pytest.mark.parametrize("name", QWEN3)
def test_broken_qwen3(tmp_path: Path, name: str):
    damage, hint = QWEN3[name]
    check_folder(ROOT / "tests/fixtures/qwen3/hf", tmp_path / "model", damage,
                 hint, f"qwen3 {name}")


def config(**changes: Any) -> Break:
    return edit("config.json", **changes)


def without(tensor: str) -> Break:
    return tensors(lambda h: h.pop(tensor))


EXPERT = "model.layers.1.mlp.experts.5.up_proj.weight"
GLM: dict[str, tuple[Break, str]] = {
    "another score": (config(scoring_func="softmax"), "scoring_func"),
    "another choice": (config(topk_method="greedy"), "noaux_tc"),
    "more experts than there are": (config(num_experts_per_tok=9), "9 of 8"),
    "groups that do not divide": (config(n_group=3), "3 groups"),
    "experts in every second layer": (config(moe_layer_freq=2),
                                      "moe_layer_freq"),
    "layers that contradict": (
        config(mlp_layer_types=["dense", "dense", "sparse"]),
        "mlp_layer_types"),
    "another rotation": (config(rope_scaling={"rope_type": "yarn"}), "yarn"),
    "heads that rotate in part": (config(partial_rotary_factor=0.5),
                                  "partial_rotary_factor"),
    "no latent": (config(kv_lora_rank=None), "kv_lora_rank"),
    "latents lie": (config(kv_lora_rank=64), "kv_b_proj"),
    "no bias of the choice": (
        without("model.layers.2.mlp.gate.e_score_correction_bias"),
        "layers.2.mlp.gate.e_score_correction_bias"),
    "an expert is missing": (without(EXPERT), EXPERT),
    "an expert is unlike the others": (
        tensors(lambda h: h[EXPERT].update(shape=[128, 64])), EXPERT),
    "experts lie": (config(n_routed_experts=6), "model.layers.1.mlp.gate"),
    "biases that are not there": (config(attention_bias=True), "q_a_proj.bias"),
}


@pytest.mark.real_model
@pytest.mark.parametrize("name", GLM)
def test_broken_glm(tmp_path: Path, name: str):
    damage, hint = GLM[name]
    check_folder(ROOT / "tests/fixtures/glm4_moe_lite/hf", tmp_path / "model",
                 damage, hint, f"glm {name}")


def text(**changes: Any) -> Break:
    """Sets keys of the text's settings; None removes the key."""
    def act(folder: Path) -> None:
        old = json.loads((folder / "config.json").read_text())["text_config"]
        edit("config.json", text_config={
            k: v for k, v in {**old, **changes}.items() if v is not None})(folder)
    return act


FULL, SLIDING = "full_attention", "sliding_attention"
IN_GEMMA = "model.language_model.layers.1."
GEMMA: dict[str, tuple[Break, str]] = {
    "another activation": (text(hidden_activation="silu"),
                           "gelu_pytorch_tanh"),
    "no causal order": (text(use_bidirectional_attention="all"),
                        "use_bidirectional_attention"),
    "no kinds of layers": (text(layer_types=None), "layer_types"),
    "another kind of layer": (text(layer_types=[FULL, "chunked"] * 3),
                              "chunked"),
    "a window at the end": (text(layer_types=[FULL, SLIDING] * 3),
                            "ends with full_attention"),
    "too few kinds": (text(layer_types=[FULL]), "a list of 6"),
    "heads of each layer": (text(per_layer_config={"0": {"head_dim": 64}}),
                            "per_layer_config"),
    "nobody's keys": (text(num_kv_shared_layers=4), "num_kv_shared_layers"),
    "no window": (text(sliding_window=None), "sliding_window"),
    "no rotations": (text(rope_parameters=None), "rope_parameters"),
    "another rotation": (
        text(rope_parameters={FULL: {"rope_type": "yarn"}, SLIDING: {}}),
        "yarn"),
    "a cap that is text": (text(final_logit_softcapping="high"),
                           "final_logit_softcapping"),
    "experts that are not there": (
        text(enable_moe_block=True, num_experts=8, top_k_experts=2,
              moe_intermediate_size=64), "layernorm_1"),
    "no second embedding": (
        without("model.language_model.embed_tokens_per_layer.weight"),
        "embed_tokens_per_layer"),
    "the second embedding lies": (text(hidden_size_per_layer_input=32),
                                  "embed_tokens_per_layer"),
    "no values": (without(IN_GEMMA + "self_attn.v_proj.weight"),
                  IN_GEMMA + "self_attn.v_proj"),
    "no scale": (without(IN_GEMMA + "layer_scalar"), IN_GEMMA + "layer_scalar"),
}


@pytest.mark.real_model
@pytest.mark.parametrize("name", GEMMA)
def test_broken_gemma(tmp_path: Path, name: str):
    damage, hint = GEMMA[name]
    check_folder(ROOT / "tests/fixtures/gemma4/hf", tmp_path / "model", damage,
                 hint, f"gemma {name}")


SPARSE = "deepseek_sparse_attention"
LINEAR = {"num_heads": 2, "head_dim": 64, "short_conv_kernel_size": 4}
IN_GLM5 = "model.language_model.layers."
GLM5: dict[str, tuple[Break, str]] = {
    "8-bit floats": (config(quantization_config={"quant_method": "fp8"}), "fp8"),
    "one stream": (text(mhc=False), "mhc"),
    "positions": (text(mla_use_nope=False), "mla_use_nope"),
    "keys that rotate": (text(qk_rope_head_dim=64, qk_head_dim=128),
                         "qk_rope_head_dim"),
    "heads lie": (text(qk_head_dim=128), "qk_head_dim"),
    "another activation": (text(hidden_act="gelu"), "hidden_act"),
    "a limit that is text": (text(swiglu_limit="10"), "swiglu_limit"),
    "no kinds of layers": (text(layer_types=None), "layer_types"),
    "another kind of layer": (text(layer_types=["full_attention"] * 5), SPARSE),
    "layers from 1": (
        text(linear_attn_config={**LINEAR, "kda_layers": [1, 3, 5]}),
        "kda_layers"),
    "layers that contradict": (
        text(linear_attn_config={**LINEAR, "full_attn_layers": [3]}),
        "full_attn_layers"),
    "no heads of the recurrence": (text(linear_attn_config=None),
                                   "linear_attn_config"),
    "decays that grow": (
        text(linear_attn_config={**LINEAR, "gate_lower_bound": 5}),
        "gate_lower_bound"),
    "another convolution": (
        text(linear_attn_config={**LINEAR, "short_conv_kernel_size": 3}),
        "conv1d"),
    "a shared index": (text(indexer_types=["full"] * 4 + ["shared"]),
                       "indexer_types"),
    "a pattern of indices": (text(index_topk_freq=2), "index_topk_freq"),
    "an index without gates": (text(index_kpool_compress=False),
                               "index_kpool_compress"),
    "pools across blocks": (text(index_kpool=3), "index_kpool"),
    "no room for a pool": (text(index_topk=2), "index_topk"),
    "an index lies": (text(index_head_dim=32), "indexer"),
    "no mixing": (without(IN_GLM5 + "0.hc_attn_base"), "hc"),
    "no decay": (without(IN_GLM5 + "0.self_attn.A_log"), "A_log"),
    "biases that are not there": (text(attention_bias=True), "q_a_proj.bias"),
}


@pytest.mark.real_model
@pytest.mark.parametrize("name", GLM5)
def test_broken_glm5(tmp_path: Path, name: str):
    damage, hint = GLM5[name]
    check_folder(ROOT / "tests/fixtures/glm5_next/hf", tmp_path / "model",
                 damage, hint, f"glm5 {name}")


@pytest.mark.parametrize("name", marked(FILES))
def test_broken_file(tmp_path: Path, name: str):
    damage, hint = FILES[name]
    path = tmp_path / "model.gguf"
    damage(path)
    check_refused(path, hint, name)


@pytest.mark.parametrize("name", ["nothing", "nothing.gguf"])
def test_missing_model(tmp_path: Path, name: str):
    check_refused(tmp_path / name, name, f"missing {name}")


def test_empty_folder(tmp_path: Path):
    check_refused(tmp_path, str(tmp_path), "empty folder")


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q4_1", "Q8_0"])
def test_small_gguf_of_every_served_type(tmp_path: Path, serve, kind: str):
    """The same files, told the truth about: they load and answer, so the
    refusals above are about the lie."""
    server = serve(gguf_file.write_small(tmp_path / "model.gguf", kind))
    answer = http.complete(server, [65, 66], max_tokens=2, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 2
