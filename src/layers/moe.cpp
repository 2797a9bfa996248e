#include "layers/moe.h"

#include <fmt/format.h>

#include <stdexcept>

#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

void require(const json& config, const char* key, int value) {
  if (const int is = positive_setting(config, key, value); is != value)
    throw std::runtime_error(fmt::format(
        "the configuration's \"{}\" is {}; it must be {}", key, is, value));
}

}  // namespace

Experts load_experts(const Checkpoint& checkpoint, const ExpertNames& names,
                     const ExpertsOptions& options) {
  const int hidden = options.hidden, width = options.intermediate;
  const StackedShape in{options.experts, width, hidden};
  const StackedShape out{options.experts, hidden, width};
  if (checkpoint.contains(names.stacks + ".gate_proj.weight"))
    return {.gate = load_stacked(checkpoint, names.stacks + ".gate_proj", in),
            .up = load_stacked(checkpoint, names.stacks + ".up_proj", in),
            .down = load_stacked(checkpoint, names.stacks + ".down_proj", out),
            .activation = options.activation};
  if (checkpoint.contains(names.stacks + ".gate_up_proj.weight")) {
    const StackedMatrix both =
        load_stacked(checkpoint, names.stacks + ".gate_up_proj",
                     {options.experts, 2 * width, hidden});
    return {.gate = stacked_rows(both, 0, width),
            .up = stacked_rows(both, width, 2 * width),
            .down = load_stacked(checkpoint, names.stacks + ".down_proj", out),
            .activation = options.activation};
  }
  if (checkpoint.contains(names.list + ".gate_up_proj")) {
    const StackedMatrix both =
        load_stacked_tensor(checkpoint, names.list + ".gate_up_proj",
                            {options.experts, 2 * width, hidden});
    return {
        .gate = stacked_rows(both, 0, width),
        .up = stacked_rows(both, width, 2 * width),
        .down = load_stacked_tensor(checkpoint, names.list + ".down_proj", out),
        .activation = options.activation};
  }
  const auto load = [&](const char* part, const StackedShape& shape) {
    return load_stacked_list(checkpoint, names.list, part, shape);
  };
  return {.gate = load("gate_proj", in),
          .up = load("up_proj", in),
          .down = load("down_proj", out),
          .activation = options.activation};
}

mx::array expert_mlp(const mx::array& x, const Experts& experts,
                     const kernels::Routing& routing) {
  const auto gate = stacked_matmul(x, experts.gate, routing.ids);
  const auto up = stacked_matmul(x, experts.up, routing.ids);
  const auto y = stacked_matmul(gated(gate, up, experts.activation),
                                experts.down, routing.ids);
  return kernels::expert_sum(y, routing.weights);
}

mx::array router_logits(const mx::array& x, const Linear& router) {
  return linear(x, router, mx::float32);
}

MoeOptions moe_options(const json& config, int hidden, Activation activation) {
  const ExpertsOptions experts{
      .experts = positive_setting(config, "n_routed_experts"),
      .hidden = hidden,
      .intermediate = positive_setting(config, "moe_intermediate_size"),
      .activation = activation};
  return {
      .experts = experts,
      .rule = routing_rule(config, experts.experts),
      .shared_intermediate = experts.intermediate *
                             positive_setting(config, "n_shared_experts", 1)};
}

Moe load_moe(const Checkpoint& checkpoint, const std::string& module,
             const MoeOptions& options) {
  const ExpertsOptions& e = options.experts;
  return {
      .router = load_linear(checkpoint, module + ".gate", e.experts, e.hidden),
      .choice_bias = load_vector(
          checkpoint, module + ".gate.e_score_correction_bias", e.experts),
      .rule = options.rule,
      .experts = load_experts(
          checkpoint,
          {.stacks = module + ".switch_mlp", .list = module + ".experts"}, e),
      .shared = load_gated_mlp(checkpoint, module + ".shared_experts", e.hidden,
                               options.shared_intermediate, e.activation)};
}

mx::array moe(const mx::array& x, const Moe& moe) {
  const auto routing =
      kernels::route(router_logits(x, moe.router), moe.rule, moe.choice_bias);
  const auto y = expert_mlp(x, moe.experts, routing);
  return moe.shared ? kernels::add(y, gated_mlp(x, *moe.shared)) : y;
}

kernels::RoutingRule routing_rule(const json& config, int experts) {
  word_setting(config, "topk_method", {"noaux_tc"});
  word_setting(config, "scoring_func", {"sigmoid"});
  kernels::RoutingRule rule{
      .top_k = positive_setting(config, "num_experts_per_tok"),
      .score = kernels::RoutingRule::Score::sigmoid,
      .normalize = flag_setting(config, "norm_topk_prob", true),
      .scale = float(number_setting(config, "routed_scaling_factor", 1.0)),
      .groups = positive_setting(config, "n_group", 1),
      .groups_kept = positive_setting(config, "topk_group", 1)};
  if (experts % rule.groups != 0 || rule.groups_kept > rule.groups ||
      rule.top_k > experts / rule.groups * rule.groups_kept)
    throw std::runtime_error(
        fmt::format("{} of {} experts cannot be chosen from {} of {} groups "
                    "(\"num_experts_per_tok\", \"topk_group\", \"n_group\")",
                    rule.top_k, experts, rule.groups_kept, rule.groups));
  return rule;
}

std::vector<bool> sparse_layers(const json& config, int layers) {
  require(config, "moe_layer_freq", 1);
  const auto types =
      word_list_setting(config, "mlp_layer_types", {"dense", "sparse"}, layers);
  const int dense = count_setting(config, "first_k_dense_replace", 1);
  std::vector<bool> sparse;
  for (int i = 0; i < layers; ++i)
    sparse.push_back(types.empty() ? i >= dense : types[i] == "sparse");
  if (!types.empty() && config.contains("first_k_dense_replace"))
    for (int i = 0; i < layers; ++i)
      if (sparse[i] != (i >= dense))
        throw std::runtime_error(fmt::format(
            "the configuration's \"mlp_layer_types\" makes layer {} {}, which "
            "\"first_k_dense_replace\" {} contradicts",
            i, types[i], dense));
  return sparse;
}

}  // namespace reprise
