#include "kernels/plain_attention.h"

#include <mlx/ops.h>

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "kernels/plain.h"
#include "kernels/plain_state.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

// Softmax over the last axis of [kv_heads, group, rows, positions], the
// heads' sinks being one more column without a value.
array weigh(const array& scores, const std::optional<array>& sinks) {
  if (!sinks) return mx::softmax(scores, -1);
  const int kv_heads = scores.shape(0), group = scores.shape(1);
  const int rows = scores.shape(2), positions = scores.shape(3);
  const auto column = mx::broadcast_to(
      mx::reshape(mx::astype(*sinks, mx::float32), {kv_heads, group, 1, 1}),
      {kv_heads, group, rows, 1});
  const auto all = mx::softmax(mx::concatenate({scores, column}, -1), -1);
  return mx::slice(all, {0, 0, 0, 0}, {kv_heads, group, rows, positions});
}

}  // namespace

array visible_mask(const RaggedSpan& span, int positions, int window) {
  const auto query =
      mx::reshape(mx::arange(span.start, span.length_after(), mx::int32),
                  {span.row_count, 1});
  const auto key =
      mx::reshape(mx::arange(positions, mx::int32), {1, positions});
  auto visible = mx::less_equal(key, query);
  if (window > 0)
    visible = mx::logical_and(
        visible, mx::greater(key, mx::subtract(query, array(window))));
  return visible;
}

array attend_span(const array& q, const std::vector<StateRows>& keys,
                  const StateRows& values, const RaggedSpan& span,
                  const AttentionShape& shape, const array& mask,
                  const std::optional<array>& sinks) {
  const int group = shape.heads / shape.kv_heads;
  const int first =
      shape.window > 0 ? std::max(0, span.start - shape.window + 1) : 0;
  std::vector<array> parts;
  for (const StateRows& part : keys)
    parts.push_back(gather_state(part, span, first, shape.kv_heads));
  const auto k = mx::concatenate(parts, -1);
  const auto v = gather_state(values, span, first, shape.kv_heads);
  const auto rows = mx::slice(q, {span.first_row, 0},
                              {span.first_row + span.row_count, q.shape(1)});
  // [kv_heads, group, rows, head_dim]: the heads of a group share k and v.
  const auto heads = mx::transpose(
      mx::reshape(mx::astype(rows, mx::float32),
                  {span.row_count, shape.kv_heads, group, shape.head_dim}),
      {1, 2, 0, 3});
  auto scores = mx::multiply(
      mx::matmul(heads, mx::expand_dims(mx::transpose(k, {0, 2, 1}), 1)),
      array(shape.scale));
  if (shape.softcap > 0) {
    const array c(shape.softcap);
    scores = mx::multiply(c, mx::tanh(mx::divide(scores, c)));
  }
  const auto weights = weigh(
      mx::where(mask, scores, array(-std::numeric_limits<float>::infinity())),
      sinks);
  const auto mixed = mx::matmul(weights, mx::expand_dims(v, 1));
  return mx::astype(mx::reshape(mx::transpose(mixed, {2, 0, 1, 3}),
                                {span.row_count, shape.heads * shape.values()}),
                    q.dtype());
}

array attention(const array& q, const std::vector<StateRows>& keys,
                const StateRows& values, const RaggedBatchPtr& batch,
                const AttentionShape& shape,
                const std::optional<array>& sinks) {
  std::vector<array> parts;
  for (const RaggedSpan& span : batch->spans)
    if (span.row_count > 0)
      parts.push_back(attend_span(
          q, keys, values, span, shape,
          visible_mask(span, blocks_of(span) * kBlockTokens, shape.window),
          sinks));
  if (parts.empty())
    return mx::zeros({q.shape(0), shape.heads * shape.values()}, q.dtype());
  return mx::concatenate(parts, 0);
}

}  // namespace reprise::kernels::plain
