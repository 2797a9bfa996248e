#include <mlx/ops.h>

#include <limits>

#include "base/limits.h"
#include "kernels/plain.h"
#include "kernels/plain_attention.h"
#include "kernels/plain_state.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

array row_range(const array& a, const RaggedSpan& span) {
  return mx::slice(a, {span.first_row, 0},
                   {span.first_row + span.row_count, a.shape(1)});
}

// The index keys of a span's complete pools, float32 [pools, dim].
array gather_pooled(const array& pooled, const RaggedSpan& span, int pool) {
  const int rows = kBlockTokens / pool;
  std::vector<std::int32_t> ids;
  for (int p = 0; p < span.length_after() / pool; ++p)
    ids.push_back(span.blocks[p / rows] * rows + p % rows);
  const array table(ids.begin(), {int(ids.size())}, mx::int32);
  return mx::astype(mx::take(pooled, table, 0), mx::float32);
}

// [rows, pools]
array pool_scores(const IndexQueries& index, const array& keys,
                  const RaggedSpan& span, const IndexShape& s) {
  const auto queries =
      mx::reshape(mx::astype(row_range(index.queries, span), mx::float32),
                  {span.row_count, s.heads, s.dim});
  const auto products =
      mx::multiply(mx::matmul(queries, mx::transpose(keys)), array(s.scale));
  const auto weights = mx::expand_dims(row_range(index.weights, span), 2);
  return mx::sum(mx::multiply(weights, mx::maximum(products, array(0.0f))), 1);
}

// The `keep` best scores of each row among those that are visible, the earlier
// of equal ones: bool [rows, pools].
array choose(const array& scores, const array& visible, int keep) {
  const int pools = scores.shape(1);
  if (pools <= keep) return visible;
  const auto live = mx::where(visible, scores,
                              array(-std::numeric_limits<float>::infinity()));
  const auto sorted = mx::sort(live, 1);
  const auto last =
      mx::slice(sorted, {0, pools - keep}, {scores.shape(0), pools - keep + 1});
  const auto better = mx::greater(live, last);
  const auto equal = mx::astype(mx::equal(live, last), mx::int32);
  const auto room = mx::subtract(
      array(keep), mx::sum(mx::astype(better, mx::int32), 1, true));
  const auto among = mx::logical_and(
      mx::astype(equal, mx::bool_), mx::less_equal(mx::cumsum(equal, 1), room));
  return mx::logical_and(visible, mx::logical_or(better, among));
}

// Positions that a span's queries attend to: bool [rows, positions].
array selected_mask(const IndexQueries& index, const array& pooled,
                    const RaggedSpan& span, const IndexShape& s) {
  const int positions = blocks_of(span) * kBlockTokens;
  const int pools = span.length_after() / s.pool;
  const auto causal = visible_mask(span, positions, 0);
  if (pools == 0) return causal;
  const auto query =
      mx::reshape(mx::arange(span.start, span.length_after(), mx::int32),
                  {span.row_count, 1});
  const auto complete =
      mx::floor_divide(mx::add(query, array(1)), array(s.pool));
  const auto visible =
      mx::less(mx::reshape(mx::arange(pools, mx::int32), {1, pools}), complete);
  const auto scores =
      pool_scores(index, gather_pooled(pooled, span, s.pool), span, s);
  const auto chosen =
      mx::repeat(choose(scores, visible, s.budget / s.pool), s.pool, 1);
  const auto rest =
      mx::zeros({span.row_count, positions - pools * s.pool}, mx::bool_);
  const auto tail = mx::greater_equal(
      mx::reshape(mx::arange(positions, mx::int32), {1, positions}),
      mx::multiply(complete, array(s.pool)));
  return mx::logical_and(
      causal, mx::logical_or(tail, mx::concatenate({chosen, rest}, 1)));
}

}  // namespace

array pool_index(const array& keys, const array& gates, const array& ape) {
  const int pool = ape.shape(0), dim = ape.shape(1);
  const mx::Shape pools = {keys.shape(0) / pool, pool, dim};
  const auto logits =
      mx::add(mx::reshape(mx::astype(gates, mx::float32), pools),
              mx::astype(ape, mx::float32));
  const auto mixed =
      mx::sum(mx::multiply(mx::softmax(logits, 1),
                           mx::reshape(mx::astype(keys, mx::float32), pools)),
              1);
  return mx::astype(mixed, keys.dtype());
}

array sparse_attention(const array& q, const std::vector<StateRows>& keys,
                       const StateRows& values, const IndexQueries& index,
                       const IndexPools& pools, const RaggedBatchPtr& batch,
                       const AttentionShape& shape,
                       const IndexShape& index_shape) {
  std::vector<array> parts;
  for (const RaggedSpan& span : batch->spans)
    if (span.row_count > 0)
      parts.push_back(attend_span(
          q, keys, values, span, shape,
          selected_mask(index, pools.pooled, span, index_shape), std::nullopt));
  if (parts.empty())
    return mx::zeros({q.shape(0), shape.heads * shape.values()}, q.dtype());
  return mx::concatenate(parts, 0);
}

}  // namespace reprise::kernels::plain
