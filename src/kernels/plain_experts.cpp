#include <mlx/ops.h>

#include <limits>

#include "kernels/cpu/host_primitive.h"
#include "kernels/plain.h"

// Widened on the CPU for the reasons that plain_matmul.cpp gives.
namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

mx::Dtype product_type(const array& x) {
  return cpu::on_cpu() ? mx::float32 : x.dtype();
}

// [T or T * k, K] as [T, 1 or k, 1, K]: a matrix of one row for each slot, or
// one that all slots of a token share.
array slots_of(const array& x, const array& ids) {
  const int tokens = ids.shape(0);
  const int slots = x.shape(0) == tokens ? 1 : ids.shape(1);
  return mx::reshape(x, {tokens, slots, 1, x.shape(1)});
}

array rows_of(const array& slots, const array& x, int columns) {
  return mx::astype(
      mx::reshape(slots, {static_cast<int>(slots.size()) / columns, columns}),
      x.dtype());
}

// The sum of each group's two best choices.
array group_scores(const array& choice, int groups) {
  const int tokens = choice.shape(0), size = choice.shape(1) / groups;
  const auto grouped = mx::reshape(choice, {tokens, groups, size});
  const auto ascending = mx::sort(grouped, -1);
  return mx::sum(mx::slice(ascending, {0, 0, size < 2 ? 0 : size - 2},
                           {tokens, groups, size}),
                 -1);
}

// The indices of the `count` largest of each row, in descending order, of
// equal ones the lowest first.
array best_of(const array& rows, int count) {
  const auto order = mx::argsort(mx::negative(rows), -1);  // stable
  return mx::astype(mx::slice(order, {0, 0}, {rows.shape(0), count}),
                    mx::int32);
}

}  // namespace

array expert_matmul(const array& x, const array& w, const array& ids) {
  const auto type = product_type(x);
  const auto products =
      mx::gather_mm(slots_of(mx::astype(x, type), ids),
                    mx::swapaxes(mx::astype(w, type), -1, -2), std::nullopt,
                    mx::astype(ids, mx::uint32));
  return rows_of(products, x, w.shape(1));
}

array expert_matmul(const array& x, const QuantizedExperts& w,
                    const array& ids) {
  const auto type = product_type(x);
  const auto products = mx::gather_qmm(
      slots_of(mx::astype(x, type), ids), w.words, mx::astype(w.scales, type),
      mx::astype(w.biases, type), std::nullopt, mx::astype(ids, mx::uint32),
      /*transpose=*/true, w.group_size, w.bits);
  return rows_of(products, x, w.rows());
}

array expert_sum(const array& y, const array& weights) {
  const int tokens = weights.shape(0), choices = weights.shape(1);
  const auto terms = mx::multiply(
      mx::reshape(mx::astype(y, mx::float32), {tokens, choices, y.shape(1)}),
      mx::expand_dims(weights, -1));
  return mx::astype(mx::sum(terms, 1), y.dtype());
}

Routing route(const array& logits, const RoutingRule& rule,
              const std::optional<array>& bias,
              const std::optional<array>& expert_scale) {
  const auto wide = mx::astype(logits, mx::float32);
  const int tokens = logits.shape(0), experts = logits.shape(1);
  const auto scores = rule.score == RoutingRule::Score::sigmoid
                          ? mx::sigmoid(wide)
                          : mx::softmax(wide, -1);
  auto choice = bias ? mx::add(scores, mx::astype(*bias, mx::float32)) : scores;
  if (rule.groups > rule.groups_kept) {
    const auto kept =
        best_of(group_scores(choice, rule.groups), rule.groups_kept);
    const auto allowed =
        mx::put_along_axis(mx::zeros({tokens, rule.groups}), kept,
                           mx::ones({tokens, rule.groups_kept}), -1);
    const auto of_experts = mx::repeat(allowed, experts / rule.groups, -1);
    choice = mx::where(mx::greater(of_experts, array(0.0f)), choice,
                       array(-std::numeric_limits<float>::infinity()));
  }
  const auto ids = best_of(choice, rule.top_k);
  auto weights = mx::take_along_axis(scores, ids, -1);
  if (rule.normalize)
    weights =
        mx::divide(weights, mx::add(mx::sum(weights, -1, true), array(1e-20f)));
  weights = mx::multiply(weights, array(rule.scale));
  if (expert_scale)
    weights = mx::multiply(
        weights, mx::take(mx::astype(*expert_scale, mx::float32), ids));
  return {ids, weights};
}

}  // namespace reprise::kernels::plain
