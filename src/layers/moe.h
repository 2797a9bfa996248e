// Mixtures of experts: a router chooses, the experts' gated MLPs compute, and
// the weights of the choice sum up.
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/experts.h"
#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/stacked_matrix.h"

namespace reprise {

struct Experts {
  StackedMatrix gate, up;  // [experts, intermediate, hidden]
  StackedMatrix down;      // [experts, hidden, intermediate]
  Activation activation = Activation::silu;
};

struct ExpertsOptions {
  int experts = 0;
  int hidden = 0;
  int intermediate = 0;
  Activation activation = Activation::silu;
};

// Where a checkpoint may have them, in three forms: "<stacks>.gate_proj",
// ".up_proj" and ".down_proj", an array of all experts each (MLX's
// conversions), the first two perhaps as one, "<stacks>.gate_up_proj";
// "<list>.gate_up_proj" and "<list>.down_proj", the rows of the gate before
// those of the other, without ".weight"; or "<list>.<i>.gate_proj" and so on,
// plain, which are copied on one another.
struct ExpertNames {
  std::string stacks;
  std::string list;
};

// Throws std::runtime_error as load_stacked.
Experts load_experts(const Checkpoint& checkpoint, const ExpertNames& names,
                     const ExpertsOptions& options);

// x [T, hidden] through the chosen experts → [T, hidden].
mlx::core::array expert_mlp(const mlx::core::array& x, const Experts& experts,
                            const kernels::Routing& routing);

// The router's product, in float32 whatever x is.
mlx::core::array router_logits(const mlx::core::array& x, const Linear& router);

// A layer with experts that only add to what one MLP for all tokens gives.
struct Moe {
  Linear router;                                // [experts, hidden]
  std::optional<mlx::core::array> choice_bias;  // [experts]: only chooses
  kernels::RoutingRule rule;
  Experts experts;
  std::optional<GatedMlp> shared;
};

struct MoeOptions {
  ExpertsOptions experts;
  kernels::RoutingRule rule;
  int shared_intermediate = 0;
};

// Of DeepSeek's form of configurations: n_routed_experts, n_shared_experts,
// moe_intermediate_size and what routing_rule() reads.
MoeOptions moe_options(const nlohmann::json& config, int hidden,
                       Activation activation = Activation::silu);

// "<module>.gate" with ".e_score_correction_bias", "<module>.switch_mlp" or
// ".experts", "<module>.shared_experts". Throws as load_linear and
// load_experts.
Moe load_moe(const Checkpoint& checkpoint, const std::string& module,
             const MoeOptions& options);

// x [T, hidden] → [T, hidden].
mlx::core::array moe(const mlx::core::array& x, const Moe& moe);

// The choice of DeepSeek's form of configurations ("topk_method" noaux_tc):
// num_experts_per_tok, n_group, topk_group, norm_topk_prob,
// routed_scaling_factor, scoring_func. Throws std::runtime_error for other
// methods and scores, by name, and for what does not fit `experts`.
kernels::RoutingRule routing_rule(const nlohmann::json& config, int experts);

// Which of the layers have experts: "mlp_layer_types" (dense, sparse) or
// "first_k_dense_replace", which must not contradict it. Throws
// std::runtime_error for a "moe_layer_freq" other than 1.
std::vector<bool> sparse_layers(const nlohmann::json& config, int layers);

}  // namespace reprise
