#include "layers/mlp.h"

#include "kernels/ops.h"

namespace reprise {

GatedMlp load_gated_mlp(const Checkpoint& checkpoint, const std::string& module,
                        int hidden, int intermediate) {
  const auto load = [&](const char* part, int out, int in) {
    return load_linear(checkpoint, module + part, out, in);
  };
  return {.gate = load(".gate_proj", intermediate, hidden),
          .up = load(".up_proj", intermediate, hidden),
          .down = load(".down_proj", hidden, intermediate)};
}

mlx::core::array gated_mlp(const mlx::core::array& x, const GatedMlp& mlp) {
  return linear(kernels::swiglu(linear(x, mlp.gate), linear(x, mlp.up)),
                mlp.down);
}

}  // namespace reprise
