// The gated feed-forward block: down(act(gate(x)) * up(x)).
#pragma once

#include <mlx/array.h>

#include <string>

#include "layers/linear.h"

namespace reprise {

struct Activation {
  enum Function { silu, gelu };  // GELU's approximation by tanh

  constexpr Activation(Function function = silu, float limit = 0)
      : function(function), limit(limit) {}

  Function function;
  // Of silu: the gate is at most this, the other factor -limit to limit; 0: no
  // limit.
  float limit;
};

// act(gate) * up. Throws std::invalid_argument for a limit of gelu.
mlx::core::array gated(const mlx::core::array& gate, const mlx::core::array& up,
                       Activation activation);

struct GatedMlp {
  Linear gate, up;  // [intermediate, hidden]
  Linear down;      // [hidden, intermediate]
  Activation activation = Activation::silu;
};

// "<module>.gate_proj" and ".up_proj", or ".gate_up_proj" with the rows of
// both, and ".down_proj". Throws as load_linear.
GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate,
                        Activation activation = Activation::silu);

// x [rows, hidden] → [rows, hidden].
mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp);

}  // namespace reprise
