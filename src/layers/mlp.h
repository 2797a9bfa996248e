// The gated feed-forward block: down(act(gate(x)) * up(x)).
#pragma once

#include <mlx/array.h>

#include <string>

#include "layers/linear.h"

namespace reprise {

enum class Activation { silu, gelu };  // GELU's approximation by tanh

// act(gate) * up.
mlx::core::array gated(const mlx::core::array& gate, const mlx::core::array& up,
                       Activation activation);

struct GatedMlp {
  Linear gate, up;  // [intermediate, hidden]
  Linear down;      // [hidden, intermediate]
  Activation activation = Activation::silu;
};

// "<module>.gate_proj", ".up_proj" and ".down_proj". Throws as load_linear.
GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate,
                        Activation activation = Activation::silu);

// x [rows, hidden] → [rows, hidden].
mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp);

}  // namespace reprise
