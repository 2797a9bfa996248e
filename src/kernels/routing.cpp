#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/route_task.h"
#include "kernels/experts.h"
#include "kernels/plain.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

// Inputs: logits, then the bias and the experts' scale where there are any.
// Outputs: ids and weights.
class Route : public cpu::HostMultiPrimitive {
 public:
  Route(const RoutingRule& rule, bool has_bias, bool has_scale)
      : rule_(rule), has_bias_(has_bias), has_scale_(has_scale) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    for (array& out : outputs)
      out.set_data(mx::allocator::malloc(out.nbytes()));
    const array& logits = inputs[0];
    if (logits.size() == 0) return;
    const auto rows = cpu::row_view(logits, stream());
    const auto vector = [&](const array& a) {
      return cpu::ExpertVector{cpu::row_view(a, stream()).data,
                               element_type(a.dtype())};
    };
    cpu::RouteTask task;
    task.logits = rows.data;
    task.row_bytes = rows.row_bytes;
    task.type = element_type(logits.dtype());
    task.experts = logits.shape(1);
    if (has_bias_) task.bias = vector(inputs[1]);
    if (has_scale_) task.expert_scale = vector(inputs.back());
    task.top_k = rule_.top_k;
    task.sigmoid = rule_.score == RoutingRule::Score::sigmoid;
    task.normalize = rule_.normalize;
    task.scale = rule_.scale;
    task.groups = rule_.groups;
    task.groups_kept = rule_.groups_kept;
    task.ids = outputs[0].data<std::int32_t>();
    task.weights = outputs[1].data<float>();
    mx::cpu::get_command_encoder(stream()).dispatch(
        [task, count = logits.shape(0)] { cpu::route(task, count); });
  }

  const char* name() const override { return "Route"; }

 private:
  const RoutingRule rule_;
  const bool has_bias_;
  const bool has_scale_;
};

void check_rule(const RoutingRule& rule, int experts) {
  if (rule.groups < 1 || experts % rule.groups != 0 || rule.groups_kept < 1 ||
      rule.groups_kept > rule.groups)
    throw std::invalid_argument(
        fmt::format("[route] {} of {} groups of {} experts", rule.groups_kept,
                    rule.groups, experts));
  const int open = experts / rule.groups * rule.groups_kept;
  if (rule.top_k < 1 || rule.top_k > open)
    throw std::invalid_argument(fmt::format(
        "[route] {} of {} experts that can be chosen", rule.top_k, open));
}

void check_vector(const std::optional<array>& a, int experts,
                  const char* what) {
  if (a && (a->ndim() != 1 || a->shape(0) != experts || !is_float(a->dtype())))
    throw std::invalid_argument(fmt::format(
        "[route] the {} must be a vector of {} numbers, one an expert", what,
        experts));
}

}  // namespace

Routing route(const array& logits, const RoutingRule& rule,
              const std::optional<array>& bias,
              const std::optional<array>& expert_scale) {
  if (logits.ndim() != 2 || !is_float(logits.dtype()))
    throw std::invalid_argument(
        "[route] logits must be float32, bfloat16 or float16 [tokens, "
        "experts]");
  const int experts = logits.shape(1);
  check_rule(rule, experts);
  check_vector(bias, experts, "bias");
  check_vector(expert_scale, experts, "experts' scale");
  if (!cpu::on_cpu()) return plain::route(logits, rule, bias, expert_scale);
  std::vector<array> inputs = {logits};
  if (bias) inputs.push_back(*bias);
  if (expert_scale) inputs.push_back(*expert_scale);
  const mx::Shape shape = {logits.shape(0), rule.top_k};
  auto outputs = array::make_arrays(
      {shape, shape}, {mx::int32, mx::float32},
      std::make_shared<Route>(rule, bias.has_value(), expert_scale.has_value()),
      inputs);
  return {outputs[0], outputs[1]};
}

}  // namespace reprise::kernels
