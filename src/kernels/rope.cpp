#include <fmt/format.h>
#include <mlx/array.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/ops.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

void check_shapes(const array& x, const array& cos, const array& sin,
                  const RopeShape& s) {
  if (s.heads < 1 || s.rotary < 0 || s.rotary % 2 != 0 || s.rotary > s.head_dim)
    throw std::invalid_argument(fmt::format(
        "[rope] {} heads of size {} with {} rotary dims: these must be even "
        "and fit a head",
        s.heads, s.head_dim, s.rotary));
  if (x.ndim() != 2 || x.shape(1) != s.heads * s.head_dim)
    throw std::invalid_argument(fmt::format(
        "[rope] x must be [tokens, {}]; it has {} axes of last size {}",
        s.heads * s.head_dim, x.ndim(), x.shape(-1)));
  const mlx::core::Shape table = {x.shape(0), s.rotary / 2};
  if (cos.shape() != table || sin.shape() != table ||
      cos.dtype() != mlx::core::float32 || sin.dtype() != mlx::core::float32)
    throw std::invalid_argument(fmt::format(
        "[rope] cos and sin must be float32 [{}, {}], as rope_table gives",
        table[0], table[1]));
}

}  // namespace

array rope(const array& x, const array& cos, const array& sin,
           const RopeShape& shape) {
  check_shapes(x, cos, sin, shape);
  if (!cpu::on_cpu()) return plain::rope(x, cos, sin, shape);
  return cpu::row_operation(cpu::kRope,
                            {.head_dim = shape.head_dim,
                             .rotary = shape.rotary,
                             .interleaved = shape.interleaved},
                            {x, cos, sin});
}

RopeTable rope_table(const RaggedBatch& batch, const array& frequencies) {
  if (frequencies.ndim() != 1 || frequencies.dtype() != mlx::core::float32)
    throw std::invalid_argument("[rope_table] frequencies must be float32 [F]");
  array known = frequencies;
  known.eval();
  const int count = known.shape(0);
  const auto stride = known.strides(0);
  int rows = 0;
  for (const RaggedSpan& span : batch.spans) rows += span.row_count;
  if (rows != batch.tokens)
    throw std::invalid_argument(fmt::format(
        "[rope_table] a batch of {} tokens whose spans have {} rows",
        batch.tokens, rows));
  std::vector<float> cos, sin;
  cos.reserve(static_cast<std::size_t>(batch.tokens) * count);
  sin.reserve(cos.capacity());
  for (const RaggedSpan& span : batch.spans)
    for (int row = 0; row < span.row_count; ++row)
      for (int i = 0; i < count; ++i) {
        // The angle is rounded to float32, as every implementation that
        // models were trained with does; its cosine is then as good as
        // float32 can hold, whatever library computes it.
        const float angle = static_cast<float>(span.start + row) *
                            known.data<float>()[i * stride];
        cos.push_back(static_cast<float>(std::cos(double{angle})));
        sin.push_back(static_cast<float>(std::sin(double{angle})));
      }
  const mlx::core::Shape shape = {batch.tokens, count};
  return {array(cos.begin(), shape, mlx::core::float32),
          array(sin.begin(), shape, mlx::core::float32)};
}

}  // namespace reprise::kernels
