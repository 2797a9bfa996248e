// Rotary frequencies of the kinds that checkpoints ask for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weights/checkpoint.h"

namespace reprise {

// Inverse frequencies [rotary / 2] in float32 from a Hugging Face config:
// rope_theta, and rope_scaling or rope_parameters with rope_type default,
// linear, llama3, or proportional, where the frequencies past a part of the
// head (partial_rotary_factor) are 0 (reference: transformers,
// modeling_rope_utils.py).
// Throws std::runtime_error for a rope_type that is not served, by name.
std::vector<float> rope_frequencies(const nlohmann::json& config, int rotary);

// The same where "rope_parameters" has settings of each type of layer.
std::vector<float> rope_frequencies_of(const nlohmann::json& config,
                                       const std::string& layer_type,
                                       int rotary);

// As an array, for kernels::rope_table.
mlx::core::array frequency_array(const std::vector<float>& frequencies);

// Throws std::runtime_error where a part of each head stays as it is
// (partial_rotary_factor).
void require_full_rotation(const nlohmann::json& config);

// rope_frequencies() for a checkpoint: its config, or where the file carries
// divisors of the plain frequencies ("rope_freqs.weight", GGUF's form of
// llama3), those.
std::vector<float> load_rope_frequencies(const Checkpoint& checkpoint,
                                         int rotary);

}  // namespace reprise
