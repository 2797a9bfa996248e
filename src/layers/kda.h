// Kimi delta attention: a short convolution over queries, keys and values, then
// the gated delta rule with a decay for each channel of a key. Its state has
// one size, however long the text. (Kimi Team 2025, arXiv:2510.26692)
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cache/state_layout.h"
#include "layers/grouped_attention.h"
#include "layers/linear.h"

namespace reprise {

struct KdaHeads {
  int heads = 1;
  int dim = 0;     // of a head of q, k and v; rank of both gates
  int kernel = 4;  // taps of the convolution
  // Of the logarithm of a decay; none: it has no bound.
  std::optional<float> lower_bound;

  int width() const { return heads * dim; }
};

// num_heads, head_dim, short_conv_kernel_size and gate_lower_bound of a
// configuration's "linear_attn_config".
KdaHeads kda_heads(const nlohmann::json& linear_attn_config);

struct Kda {
  KdaHeads shape;
  Linear q, k, v;           // [width(), hidden]
  mlx::core::array conv;    // [kernel, 3 * width()], of q, k and v
  Linear decay_a, decay_b;  // [dim, hidden], [width(), dim]
  mlx::core::array rate;    // float32 [heads], logarithms
  mlx::core::array bias;    // [width()], of the decay
  Linear beta;              // [heads, hidden]
  Linear gate_a, gate_b;    // [dim, hidden], [width(), dim], of the output
  mlx::core::array norm;    // [dim]
  Linear o;                 // [hidden, width()]
  float norm_eps = 0;
};

// Under "<module>" in any of these forms: "q_proj", "k_proj", "v_proj" or
// "qkv_proj"; "q_conv1d" and so on, "conv1d" or "qkv_conv.conv"; "f_a_proj",
// "b_proj", "g_a_proj" or "fbg_a_proj"; "A_log", "dt_bias", "f_a_proj" and
// "f_b_proj" themselves or in "forget_gate"; "g_b_proj", "o_norm", "o_proj".
// Throws as load_linear.
Kda load_kda(const Checkpoint& checkpoint, const std::string& module,
             const KdaHeads& shape, int hidden, float norm_eps);

// x [T, hidden] → [T, hidden]. Reads and writes the slots of the layer's
// families 0 and 1 (kda_state()).
mlx::core::array kda(const mlx::core::array& x, const Kda& layer,
                     const LayerStep& step, int index);

// "conv", the last rows before the convolution; "recurrent", in float32.
LayerState kda_state(const KdaHeads& shape, mlx::core::Dtype dtype);

}  // namespace reprise
