"""`reprise show`: what it says of models, and of what is none."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY
from serving import SMOLLM2
from support import gguf_file, safetensors_file
from support.fixture_models import FIXTURES
from support.show import command, families, report, show

pytestmark = pytest.mark.real_model  # it reads weights with MLX

LAYER_MATRICES = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj",
                  "up_proj", "v_proj"]


def config_of(arch: str) -> dict[str, Any]:
    """With the settings of text beside the others."""
    config = json.loads((FIXTURES / arch / "hf/config.json").read_text())
    return {**config.get("text_config", {}), **config}


def end_tokens(config: dict[str, Any]) -> list[int]:
    end = config["eos_token_id"]
    return end if isinstance(end, list) else [end]


ARCHES = {"llama": "llama", "qwen3": "qwen3",
          "glm4_moe_lite": "glm4_moe_lite", "glm5_next": "glm5_next",
          "gemma4": "gemma4", "gemma4_moe": "gemma4"}


@pytest.mark.parametrize("arch", ARCHES)
def test_a_folder(arch: str):
    config = config_of(arch)
    golden = json.loads((FIXTURES / arch / "golden.json").read_text())
    said = report(FIXTURES / arch / "hf")
    assert said["model_type"] == ARCHES[arch] and said["served"] is True
    assert said["layers"] == config["num_hidden_layers"]
    assert said["context_tokens"] == config["max_position_embeddings"]
    assert said["vocabulary"] == said["tokenizer_tokens"] == 512
    assert said["parameters"] == golden["parameters"]
    file = FIXTURES / arch / "hf/model.safetensors"
    assert said["files"] == [{"name": file.name, "bytes": file.stat().st_size}]
    assert 0 < said["weight_bytes"] < file.stat().st_size
    assert "tensors" not in said
    assert all("visual" in name for name in said["not_loaded"])
    assert said["end_tokens"] == end_tokens(config)
    assert said["chat_template"] is True


def test_state_follows_the_dtype():
    row = 2 * 64  # key-value heads x dimensions of a head
    for dtype, size in {"float32": 4, "bfloat16": 2}.items():
        state = report(TINY, "--dtype", dtype)["state"]
        kind, = state["kinds"]
        assert kind["layers"] == [0, 1, 2]
        assert [(f["name"], f["growth"], f["dtype"], f["row_bytes"])
                for f in kind["families"]] == [
            ("keys", "per token", dtype, row * size),
            ("values", "per token", dtype, row * size)]
        token = 3 * 2 * row * size
        assert state["bytes_per_token"] == token
        assert state["bytes_per_snapshot"] == 0
        assert state["bytes_at_context"] == 262144 * token


def test_state_of_latents():
    kind, = report(FIXTURES / "glm4_moe_lite/mlx-q4")["state"]["kinds"]
    assert kind["layers"] == [0, 1, 2]
    assert families(kind) == [("latent", "per token", 128),
                              ("rope_key", "per token", 32)]


def test_state_is_what_the_reference_keeps():
    layout = json.loads(
        (FIXTURES / "glm4_moe_lite/cache_layout.json").read_text())
    kind, = report(FIXTURES / "glm4_moe_lite/hf")["state"]["kinds"]
    for prompt in layout["prompts"]:
        assert [x["layer"] for x in prompt["layers"]] == kind["layers"]
        for layer in prompt["layers"]:
            kept = [(s["name"], s["shape"][-2], s["shape"][-1])
                    for s in layer["state"]]
            assert kept == [(name, prompt["n"], elements)
                            for name, _, elements in families(kind)]


def test_state_of_windows_and_of_layers_without_any():
    state = report(FIXTURES / "gemma4/hf")["state"]
    near, far, none = state["kinds"]
    assert [k["layers"] for k in state["kinds"]] == [[0, 1], [2], [3, 4, 5]]
    assert families(near) == [("keys", "window of 64 tokens", 64),
                              ("values", "window of 64 tokens", 64)]
    assert families(far) == [("keys", "per token", 128),
                             ("values", "per token", 128)]
    assert none["families"] == [] and none["bytes_at_context"] == 0
    assert near["bytes_per_token"] == 0
    assert state["bytes_per_token"] == 2 * 128 * 4
    assert near["bytes_at_context"] == 2 * 2 * 64 * 64 * 4
    assert "layers 3-5: none of their own" in show(FIXTURES / "gemma4/hf")


@pytest.mark.parametrize("arch, name", [
    ("glm4_moe_lite", "model.layers.3.eh_proj.weight"),
    ("glm5_next", "model.language_model.layers.5.eh_proj.weight"),
    ("gemma4", "model.vision_tower.patch_embedder.weight")])
def test_what_is_of_no_use_for_text_is_left(tmp_path: Path, arch: str,
                                            name: str):
    """Layers that predict several tokens at once; encoders of pictures."""
    folder = shutil.copytree(FIXTURES / arch / "hf", tmp_path / "model")
    safetensors_file.add(folder / "model.safetensors",
                         {name: ("BF16", (8,))})
    plain, said = report(FIXTURES / arch / "hf"), report(folder)
    assert said["served"] is True and plain["state"] == said["state"]
    assert said["not_loaded"] == sorted([*plain["not_loaded"], name])


def test_pictures_of_a_model_with_recurrence_are_left():
    for kind, where in (("hf", "model.visual."), ("mlx-q4", "vision_tower.")):
        left = report(FIXTURES / "glm5_next" / kind)["not_loaded"]
        assert len(left) == 25 and all(n.startswith(where) for n in left)


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_a_quantized_folder_holds_the_same_model(arch: str):
    plain = report(FIXTURES / arch / "hf")
    said = report(FIXTURES / arch / "mlx-q4", "--tensors")
    assert said["parameters"] == plain["parameters"]
    packed = [s for s in said["storage"] if "bits" in s]
    assert [(s["bits"], s["group_size"]) for s in packed] == [(4, 64)]
    assert set(LAYER_MATRICES) < set(packed[0]["modules"])
    assert sum(s["bytes"] for s in said["storage"]) == said["weight_bytes"]
    assert sum(t["bytes"] for t in said["tensors"]) == said["weight_bytes"]
    head = next(t for t in said["tensors"]
                if t["name"] == "model.embed_tokens.weight")
    assert head["dtype"] == "uint32" and head["shape"][0] == 512


def test_what_is_stored_otherwise_is_a_group_of_its_own():
    smol = {(s["dtype"], s.get("bits")): s
            for s in report(Path(SMOLLM2))["storage"]}
    assert smol["Q4_1", 4]["modules"] == LAYER_MATRICES
    assert smol["Q4_1", 4]["tensors"] == 210
    assert smol["Q8_0", 8]["modules"] == ["embed_tokens"]
    assert smol["float32", None]["tensors"] == 61


def with_an_odd_tensor(path: Path) -> Path:
    tensors = {**gguf_file.small_tensors("Q4_0"),
               "blk.0.odd.weight": ("F32", (8,))}
    path.write_bytes(gguf_file.build(gguf_file.small_metadata(), tensors))
    return path


def test_what_a_model_does_not_use(tmp_path: Path):
    model = with_an_odd_tensor(tmp_path / "model.gguf")
    said = report(model, "--tensors")
    assert said["not_loaded"] == ["blk.0.odd.weight"]
    assert [t["name"] for t in said["tensors"] if "loaded" in t] == [
        "blk.0.odd.weight"]
    assert "1 tensors (blk.0.odd.weight)" in show(model)
    loaded = command("run", "-m", model, "-p", "a", "-n", "1", "--log-level",
                     "info", "--state-memory", "16MiB")
    assert "not loaded: 1 tensors (blk.0.odd.weight)" in loaded.stderr


def test_lines_for_people():
    lines = dict(line.split(maxsplit=1)
                 for line in show(FIXTURES / "qwen3/mlx-q4").splitlines()
                 if line[:1].strip())
    assert lines["context"] == "262,144 tokens"
    assert lines["parameters"] == "328,512"
    assert "3 KiB a token" in show(FIXTURES / "qwen3/mlx-q4")
    assert "4 bits in groups of 64" in show(FIXTURES / "qwen3/mlx-q4")
    assert "model.norm.weight  bfloat16 [64]" in show(
        FIXTURES / "qwen3/hf", "--tensors").splitlines()


def test_a_type_that_is_not_served_is_described_all_the_same(tmp_path: Path):
    folder = shutil.copytree(TINY, tmp_path / "model",
                             ignore=shutil.ignore_patterns("tokenizer*"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(
        {**config, "model_type": "warp"}))
    said = report(folder)
    assert said["served"] is False and "warp" in said["refusal"]
    assert said["parameters"] == report(TINY)["parameters"]
    assert "tokenizer.json" in said["text_refusal"] and "state" not in said
    assert "'warp' is not served" in show(folder)


@pytest.mark.parametrize("name, hint", [
    ("nothing", "no model at"), ("folder", "config.json"),
    ("text.gguf", "not a GGUF file")])
def test_what_is_no_model(tmp_path: Path, name: str, hint: str):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.gguf").write_text("This is no model, but long enough.")
    done = command("show", tmp_path / name)
    assert done.returncode == 1 and not done.stdout
    line, = done.stderr.splitlines()
    assert hint in line and name in line
