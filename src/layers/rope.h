// Rotary frequencies of the kinds that checkpoints ask for.
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace reprise {

// Inverse frequencies [rotary / 2] in float32 from a Hugging Face config:
// rope_theta, and rope_scaling or rope_parameters with rope_type default,
// linear, or llama3 (reference: transformers, modeling_rope_utils.py).
// Throws std::runtime_error for a rope_type that is not served, by name.
std::vector<float> rope_frequencies(const nlohmann::json& config, int rotary);

}  // namespace reprise
