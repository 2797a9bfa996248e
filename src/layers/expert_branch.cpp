#include "layers/expert_branch.h"

#include <cmath>

#include "kernels/ops.h"

namespace reprise {

namespace mx = mlx::core;

ExpertBranch load_expert_branch(const Checkpoint& checkpoint,
                                const std::string& layer,
                                const ExpertBranchOptions& options) {
  const int experts = options.experts.experts, hidden = options.experts.hidden;
  const auto vector = [&](const char* part, int dim) {
    return load_vector(checkpoint, layer + part, dim);
  };
  return {.mlp_norm = vector(".post_feedforward_layernorm_1.weight", hidden),
          .in_norm = vector(".pre_feedforward_layernorm_2.weight", hidden),
          .out_norm = vector(".post_feedforward_layernorm_2.weight", hidden),
          .router_norm = vector(".router.scale", hidden),
          .expert_scale = vector(".router.per_expert_scale", experts),
          .router =
              load_linear(checkpoint, layer + ".router.proj", experts, hidden),
          .experts = load_experts(checkpoint,
                                  {.stacks = layer + ".experts.switch_glu",
                                   .list = layer + ".experts"},
                                  options.experts),
          .top_k = options.top_k,
          .norm_eps = options.norm_eps};
}

mx::array with_experts(const mx::array& mlp, const mx::array& x,
                       const ExpertBranch& branch) {
  const auto norm = [&](const mx::array& rows, const mx::array& weight) {
    return kernels::rms_norm(rows, weight, branch.norm_eps);
  };
  const auto seen = kernels::scale(norm(x, branch.router_norm),
                                   1 / std::sqrt(float(x.shape(1))));
  const auto routing = kernels::route(
      router_logits(seen, branch.router),
      {.top_k = branch.top_k, .normalize = true}, {}, branch.expert_scale);
  const auto y = expert_mlp(norm(x, branch.in_norm), branch.experts, routing);
  return kernels::add(norm(mlp, branch.mlp_norm), norm(y, branch.out_norm));
}

}  // namespace reprise
