#include "layers/mlp.h"

#include "kernels/ops.h"

namespace reprise {

mlx::core::array gated(const mlx::core::array& gate, const mlx::core::array& up,
                       Activation activation) {
  return activation == Activation::gelu ? kernels::geglu(gate, up)
                                        : kernels::swiglu(gate, up);
}

GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate, Activation activation) {
  const auto load = [&](const char* part, int out, int in) {
    return load_linear(checkpoint, module + part, out, in);
  };
  return {.gate = load(".gate_proj", intermediate, hidden),
          .up = load(".up_proj", intermediate, hidden),
          .down = load(".down_proj", hidden, intermediate),
          .activation = activation};
}

mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp) {
  return linear(gated(linear(x, mlp.gate), linear(x, mlp.up), mlp.activation),
                mlp.down);
}

}  // namespace reprise
