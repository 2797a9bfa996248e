"""A published model by its configuration and the shapes of its tensors alone:
what it costs is known before anybody downloads it."""

import json
from pathlib import Path

import pytest

from support import safetensors_file
from support.safetensors_file import Tensors
from support.show import families, report

pytestmark = pytest.mark.real_model

# GLM-4.7-Flash, as its config.json has it.
HIDDEN, LAYERS, EXPERTS, VOCABULARY = 2048, 47, 64, 154880
HEADS, NOPE, ROPE, VALUE, LATENT, RANK = 20, 192, 64, 256, 512, 768
GLM = {
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "model_type": "glm4_moe_lite", "attention_bias": False,
    "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": 10240,
    "max_position_embeddings": 202752, "moe_intermediate_size": 1536,
    "topk_method": "noaux_tc", "norm_topk_prob": True,
    "num_attention_heads": HEADS, "n_group": 1, "topk_group": 1,
    "n_routed_experts": EXPERTS, "n_shared_experts": 1,
    "routed_scaling_factor": 1.8, "num_experts_per_tok": 4,
    "first_k_dense_replace": 1, "num_hidden_layers": LAYERS,
    "num_key_value_heads": HEADS, "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5, "rope_scaling": None,
    "rope_theta": 1000000, "tie_word_embeddings": False, "dtype": "bfloat16",
    "q_lora_rank": RANK, "kv_lora_rank": LATENT, "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE, "v_head_dim": VALUE, "vocab_size": VOCABULARY}


def mlp(name: str, width: int) -> Tensors:
    return {f"{name}.gate_proj.weight": ("BF16", (width, HIDDEN)),
            f"{name}.up_proj.weight": ("BF16", (width, HIDDEN)),
            f"{name}.down_proj.weight": ("BF16", (HIDDEN, width))}


def layer(index: int) -> Tensors:
    name = f"model.layers.{index}"
    shapes = {
        "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
        "self_attn.q_a_proj": (RANK, HIDDEN),
        "self_attn.q_a_layernorm": (RANK,),
        "self_attn.q_b_proj": (HEADS * (NOPE + ROPE), RANK),
        "self_attn.kv_a_proj_with_mqa": (LATENT + ROPE, HIDDEN),
        "self_attn.kv_a_layernorm": (LATENT,),
        "self_attn.kv_b_proj": (HEADS * (NOPE + VALUE), LATENT),
        "self_attn.o_proj": (HIDDEN, HEADS * VALUE)}
    tensors: Tensors = {f"{name}.{part}.weight": ("BF16", shape)
                        for part, shape in shapes.items()}
    if index == 0:
        return {**tensors, **mlp(f"{name}.mlp", 10240)}
    tensors[f"{name}.mlp.gate.weight"] = ("BF16", (EXPERTS, HIDDEN))
    tensors[f"{name}.mlp.gate.e_score_correction_bias"] = ("F32", (EXPERTS,))
    for expert in range(EXPERTS):
        tensors |= mlp(f"{name}.mlp.experts.{expert}", 1536)
    return {**tensors, **mlp(f"{name}.mlp.shared_experts", 1536)}


def test_glm_4_7_flash(tmp_path: Path):
    ends: Tensors = {
        "model.embed_tokens.weight": ("BF16", (VOCABULARY, HIDDEN)),
        "model.norm.weight": ("BF16", (HIDDEN,)),
        "lm_head.weight": ("BF16", (VOCABULARY, HIDDEN))}
    trunk = {k: v for i in range(LAYERS) for k, v in layer(i).items()}
    beyond = layer(LAYERS)  # predicts several tokens at once
    safetensors_file.write(tmp_path / "model.safetensors",
                           {**ends, **trunk, **beyond})
    (tmp_path / "config.json").write_text(json.dumps(GLM))
    said = report(tmp_path, "--dtype", "bfloat16")
    assert said["served"] is True, said["refusal"]
    assert said["layers"] == 47 and said["context_tokens"] == 202752
    assert said["not_loaded"] == sorted(beyond)
    kind, = said["state"]["kinds"]
    assert families(kind) == [("latent", "per token", 512),
                              ("rope_key", "per token", 64)]
    assert said["state"]["bytes_per_token"] == 54_144
