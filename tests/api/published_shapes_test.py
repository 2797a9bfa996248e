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


# GLM-5.3-Flash, as its config.json has it; its experts on one another, as
# conversions have them, for a short header.
WIDE, STREAMS, KDA_WIDTH = 4096, 4, 64 * 128
KDA_LAYERS = [i for i in range(45) if i % 4 != 3]
GLM5_TEXT = {
    "model_type": "glm5_next_text", "vocab_size": VOCABULARY,
    "hidden_size": WIDE, "num_hidden_layers": 45, "intermediate_size": 12288,
    "moe_intermediate_size": 2048, "num_attention_heads": 64,
    "num_key_value_heads": 64, "head_dim": 0, "qk_head_dim": 256,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0, "v_head_dim": 256, "mla_use_nope": True,
    "attention_bias": False, "hidden_act": "silu", "swiglu_limit": 10.0,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 1048576,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_routed_experts": 288,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 1,
    "topk_group": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
    "norm_topk_prob": True, "routed_scaling_factor": 2.5, "mhc": True,
    "hc_mult": STREAMS, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
    "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048,
    "index_kpool": 4, "index_kpool_compress": True,
    "index_kpool_always_select_tail": True, "num_nextn_predict_layers": 1,
    "indexer_types": ["full"] * 45,
    "layer_types": ["linear_attention" if i in KDA_LAYERS
                    else "deepseek_sparse_attention" for i in range(45)],
    "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 42,
    "linear_attn_config": {
        "num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4,
        "gate_lower_bound": -5.0, "kda_layers": KDA_LAYERS,
        "full_attn_layers": list(range(3, 45, 4))}}
GLM5 = {"architectures": ["Glm5NextForConditionalGeneration"],
        "model_type": "glm5_next", "tie_word_embeddings": False,
        "text_config": GLM5_TEXT}

KDA_SHAPES = {
    "qkv_proj.weight": (3 * KDA_WIDTH, WIDE),
    "qkv_conv.conv.weight": (3 * KDA_WIDTH, 4, 1), "A_log": (64,),
    "dt_bias": (KDA_WIDTH,), "fbg_a_proj.weight": (128 + 64 + 128, WIDE),
    "f_b_proj.weight": (KDA_WIDTH, 128), "g_b_proj.weight": (KDA_WIDTH, 128),
    "o_norm.weight": (128,), "o_proj.weight": (WIDE, KDA_WIDTH)}
SPARSE_SHAPES = {
    "qkv_a_proj.weight": (1536 + 512, WIDE), "q_a_layernorm.weight": (1536,),
    "q_b_proj.weight": (64 * 256, 1536), "kv_a_layernorm.weight": (512,),
    "embed_q.weight": (64, 512, 256), "unembed_out.weight": (64, 256, 512),
    "o_proj.weight": (WIDE, 64 * 256), "indexer.wq_b.weight": (4096, 1536),
    "indexer.wk.weight": (128, WIDE), "indexer.k_norm.weight": (128,),
    "indexer.k_norm.bias": (128,), "indexer.weights_proj.weight": (32, WIDE),
    "indexer.index_kpool_compress_ape": (4, 128),
    "indexer.index_kpool_compress_gate": (128, WIDE)}
MOE_SHAPES = {
    "gate.weight": (288, WIDE), "gate.e_score_correction_bias": (288,),
    "switch_mlp.gate_up_proj.weight": (288, 2 * 2048, WIDE),
    "switch_mlp.down_proj.weight": (288, WIDE, 2048),
    "shared_experts.gate_up_proj.weight": (2 * 2048, WIDE),
    "shared_experts.down_proj.weight": (WIDE, 2048)}
DENSE_SHAPES = {"gate_up_proj.weight": (2 * 12288, WIDE),
                "down_proj.weight": (WIDE, 12288)}


def glm5_layer(index: int) -> Tensors:
    name = f"language_model.model.layers.{index}"
    attention = KDA_SHAPES if index in KDA_LAYERS else SPARSE_SHAPES
    mlp_shapes = DENSE_SHAPES if index < 3 else MOE_SHAPES
    shapes = {"input_layernorm.weight": (WIDE,),
              "post_attention_layernorm.weight": (WIDE,),
              **{f"self_attn.{k}": v for k, v in attention.items()},
              **{f"mlp.{k}": v for k, v in mlp_shapes.items()}}
    if index < 45:
        for site in ("attn_hc", "ffn_hc"):
            shapes |= {f"{site}.fn": (24, STREAMS * WIDE),
                       f"{site}.base": (24,), f"{site}.scale": (3,)}
    return {f"{name}.{part}": ("BF16", shape) for part, shape in shapes.items()}


def test_glm_5_3_flash(tmp_path: Path):
    ends: Tensors = {
        "language_model.model.embed_tokens.weight":
            ("BF16", (VOCABULARY, WIDE)),
        "language_model.model.norm.weight": ("BF16", (WIDE,)),
        "language_model.lm_head.weight": ("BF16", (VOCABULARY, WIDE))}
    trunk = {k: v for i in range(45) for k, v in glm5_layer(i).items()}
    beyond = glm5_layer(45)  # predicts several tokens at once
    safetensors_file.write(tmp_path / "model.safetensors",
                           {**ends, **trunk, **beyond})
    (tmp_path / "config.json").write_text(json.dumps(GLM5))
    said = report(tmp_path, "--dtype", "bfloat16")
    assert said["served"] is True, said["refusal"]
    assert said["layers"] == 45 and said["context_tokens"] == 1048576
    assert said["not_loaded"] == sorted(beyond)
    kda, sparse = said["state"]["kinds"]
    assert families(kda) == [("conv", "snapshot", 3 * 3 * KDA_WIDTH),
                             ("recurrent", "snapshot", 64 * 128 * 128)]
    assert families(sparse) == [("latent", "per token", 512),
                                ("index", "pooled by 4", 128),
                                ("index_partial", "snapshot", 3 * 2 * 128)]
    assert said["state"]["bytes_per_token"] == 11 * (1024 + 64)
    # 147,456 + 4,194,304 bytes in each of 34 layers, 1,536 in each of 11.
    assert said["state"]["bytes_per_snapshot"] == 147_636_736
