// What Hugging Face would call the things in a GGUF file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/gguf_file.h"

namespace reprise {

// "blk.3.ffn_up.weight" -> "model.layers.3.mlp.up_proj.weight". A name that is
// not in the table stays as it is ("rope_freqs.weight"). Source of names:
// gguf-py's tensor_mapping.py.
std::string hugging_face_name(std::string_view gguf_name);

// A config.json out of the metadata, for every key that the file has:
// model_type, hidden_size, num_hidden_layers, num_attention_heads,
// num_key_value_heads, head_dim, intermediate_size, rms_norm_eps, rope_theta,
// rope_scaling, partial_rotary_factor, max_position_embeddings, vocab_size,
// tie_word_embeddings, bos_token_id, eos_token_id. "rope_interleaved" is
// always true, the container's default; an architecture whose conversion
// keeps Hugging Face's row order must not look at it.
// Errors: corrupt without general.architecture; unsupported for one part of a
// split file.
Result<nlohmann::json> gguf_config(const GgufFile& file);

}  // namespace reprise
