#include "kernels/plain_state.h"

#include <mlx/ops.h>

#include <algorithm>

#include "base/limits.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

array columns(const array& rows, int begin, int end) {
  return mx::contiguous(mx::slice(rows, {0, begin}, {rows.shape(0), end}));
}

array take_blocks(const array& pool, const array& table) {
  const int row = pool.shape(1);
  return mx::reshape(mx::take(mx::reshape(pool, {-1, kBlockTokens, row}), table,
                              /* axis= */ 0),
                     {-1, row});
}

}  // namespace

int blocks_of(const RaggedSpan& span) {
  return blocks_for(span.length_after());
}

array dequantize_rows(const array& rows, int width, mx::Dtype dtype,
                      const RowCodec& codec) {
  const int words = width * codec.bits / 8;
  const int scales = width / codec.group_size * int(mx::size_of(dtype));
  const auto part = [&](int begin, int end, mx::Dtype type) {
    return mx::view(columns(rows, begin, end), type);
  };
  const auto wide = [&](int begin) {
    return mx::astype(part(begin, begin + scales, dtype), mx::float32);
  };
  return mx::dequantize(part(0, words, mx::uint32), wide(words),
                        wide(words + scales), codec.group_size, codec.bits);
}

array gather_state(const StateRows& state, const RaggedSpan& span, int first,
                   int heads) {
  const int count = blocks_of(span);
  const int positions = count * kBlockTokens;
  const int width = heads * state.dim;
  // Blocks that may be gone are any other block, whose rows are zeroed.
  std::vector<std::int32_t> ids(span.blocks.begin(),
                                span.blocks.begin() + count);
  for (std::int32_t& id : ids) id = std::max(id, 0);
  const array table(ids.begin(), {count}, mx::int32);
  const auto position =
      mx::reshape(mx::arange(positions, mx::int32), {positions, 1});
  auto rows = mx::astype(take_blocks(state.plain, table), mx::float32);
  if (state.quantized)
    rows = mx::where(mx::less(position, array(state.quantized_from)), rows,
                     dequantize_rows(take_blocks(*state.quantized, table),
                                     width, state.plain.dtype(), state.codec));
  const auto live =
      mx::logical_and(mx::greater_equal(position, array(first)),
                      mx::less(position, array(span.length_after())));
  return mx::transpose(mx::reshape(mx::where(live, rows, array(0.0f)),
                                   {positions, heads, state.dim}),
                       {1, 0, 2});
}

}  // namespace reprise::kernels::plain
