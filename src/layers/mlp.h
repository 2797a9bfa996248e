// The gated feed-forward block: down(silu(gate(x)) * up(x)).
#pragma once

#include <mlx/array.h>

#include <string>

#include "layers/linear.h"

namespace reprise {

struct GatedMlp {
  Linear gate, up;  // [intermediate, hidden]
  Linear down;      // [hidden, intermediate]
};

// "<module>.gate_proj", ".up_proj" and ".down_proj". Throws as load_linear.
GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate);

// x [rows, hidden] → [rows, hidden].
mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp);

}  // namespace reprise
