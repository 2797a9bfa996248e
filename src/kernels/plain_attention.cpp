#include <mlx/ops.h>

#include <limits>

#include "base/limits.h"
#include "kernels/plain.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

// The blocks of one span, [kv_heads, positions, head_dim] in float32, with
// zeros from `length` on: a mask alone would let a NaN of a stale row through
// the product with the weights.
array gather(const array& pool, const RaggedSpan& span,
             const AttentionShape& shape) {
  const int row = pool.shape(1);
  const int count = (span.length_after() + kBlockTokens - 1) / kBlockTokens;
  const array table(span.blocks.begin(), {count}, mx::int32);
  const auto blocks = mx::take(mx::reshape(pool, {-1, kBlockTokens, row}),
                               table, /* axis= */ 0);
  const int positions = count * kBlockTokens;
  const auto rows =
      mx::astype(mx::reshape(blocks, {positions, row}), mx::float32);
  const auto live =
      mx::less(mx::reshape(mx::arange(positions, mx::int32), {positions, 1}),
               array(span.length_after()));
  const auto clean = mx::where(live, rows, array(0.0f));
  return mx::transpose(
      mx::reshape(clean, {positions, shape.kv_heads, shape.head_dim}),
      {1, 0, 2});
}

// 0 where the query of a row may look, -infinity elsewhere: [rows, positions].
array causal_mask(const RaggedSpan& span, int positions) {
  const auto query =
      mx::reshape(mx::arange(span.start, span.length_after(), mx::int32),
                  {span.row_count, 1});
  const auto key =
      mx::reshape(mx::arange(positions, mx::int32), {1, positions});
  return mx::where(mx::less_equal(key, query), array(0.0f),
                   array(-std::numeric_limits<float>::infinity()));
}

array attend_span(const array& q, const array& keys, const array& values,
                  const RaggedSpan& span, const AttentionShape& shape) {
  const int group = shape.heads / shape.kv_heads;
  const auto k = gather(keys, span, shape);
  const auto v = gather(values, span, shape);
  const auto rows = mx::slice(q, {span.first_row, 0},
                              {span.first_row + span.row_count, q.shape(1)});
  // [kv_heads, group, rows, head_dim]: the heads of a group share k and v.
  const auto heads = mx::transpose(
      mx::reshape(mx::astype(rows, mx::float32),
                  {span.row_count, shape.kv_heads, group, shape.head_dim}),
      {1, 2, 0, 3});
  const auto scores = mx::multiply(
      mx::matmul(heads, mx::expand_dims(mx::transpose(k, {0, 2, 1}), 1)),
      array(shape.scale));
  const auto weights =
      mx::softmax(mx::add(scores, causal_mask(span, k.shape(1))), -1);
  const auto mixed = mx::matmul(weights, mx::expand_dims(v, 1));
  return mx::astype(mx::reshape(mx::transpose(mixed, {2, 0, 1, 3}),
                                {span.row_count, q.shape(1)}),
                    q.dtype());
}

}  // namespace

array attention(const array& q, const array& keys, const array& values,
                const RaggedBatchPtr& batch, const AttentionShape& shape) {
  std::vector<array> parts;
  for (const RaggedSpan& span : batch->spans)
    if (span.row_count > 0)
      parts.push_back(attend_span(q, keys, values, span, shape));
  if (parts.empty()) return mx::zeros(q.shape(), q.dtype());
  return mx::concatenate(parts, 0);
}

}  // namespace reprise::kernels::plain
