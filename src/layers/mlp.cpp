#include "layers/mlp.h"

#include <stdexcept>

#include "kernels/ops.h"

namespace reprise {

mlx::core::array gated(const mlx::core::array& gate, const mlx::core::array& up,
                       Activation activation) {
  if (activation.function == Activation::gelu) {
    if (activation.limit > 0)
      throw std::invalid_argument("[gated] gelu has no limit");
    return kernels::geglu(gate, up);
  }
  return activation.limit > 0 ? kernels::swiglu(gate, up, activation.limit)
                              : kernels::swiglu(gate, up);
}

GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate, Activation activation) {
  const auto in = load_linears(checkpoint, module + ".gate_up_proj",
                               {{module + ".gate_proj", intermediate},
                                {module + ".up_proj", intermediate}},
                               hidden);
  return {.gate = in[0],
          .up = in[1],
          .down = load_linear(checkpoint, module + ".down_proj", hidden,
                              intermediate),
          .activation = activation};
}

mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp) {
  return linear(gated(linear(x, mlp.gate), linear(x, mlp.up), mlp.activation),
                mlp.down);
}

}  // namespace reprise
