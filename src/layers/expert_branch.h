// Experts beside a layer's MLP, with norms and a router of their own: the
// router sees the residual stream through one norm, the experts through
// another, and both results are normed before they are added.
#pragma once

#include <mlx/array.h>

#include <string>

#include "layers/linear.h"
#include "layers/moe.h"

namespace reprise {

struct ExpertBranch {
  mlx::core::array mlp_norm, in_norm, out_norm;  // [hidden]
  mlx::core::array router_norm;                  // [hidden]
  mlx::core::array expert_scale;                 // [experts]
  Linear router;                                 // [experts, hidden]
  Experts experts;
  int top_k = 1;
  float norm_eps = 0;
};

struct ExpertBranchOptions {
  ExpertsOptions experts;
  int top_k = 1;
  float norm_eps = 0;
};

// "<layer>.router", ".experts" and the norms "_1" and "_2" around them. Throws
// as load_linear and load_experts.
ExpertBranch load_expert_branch(const Checkpoint& checkpoint,
                                const std::string& layer,
                                const ExpertBranchOptions& options);

// What the MLP gave for x and what the experts give for it, together. Both
// [T, hidden]; the MLP has seen a norm of x, this sees x.
mlx::core::array with_experts(const mlx::core::array& mlp,
                              const mlx::core::array& x,
                              const ExpertBranch& branch);

}  // namespace reprise
