#include "kernels/plain.h"

#include <mlx/ops.h>

namespace reprise::kernels::plain {

namespace mx = mlx::core;

array add(const array& a, const array& b) {
  return mx::add(a, b);
}

array rope(const array& x, const array& cos, const array& sin,
           const RopeShape& shape) {
  const int tokens = x.shape(0);
  const int half = shape.rotary / 2;
  const auto heads = mx::reshape(mx::astype(x, mx::float32),
                                 {tokens, shape.heads, shape.head_dim});
  const auto c = mx::expand_dims(cos, 1);
  const auto s = mx::expand_dims(sin, 1);
  const mx::Shape start = {0, 0, 0};
  const mx::Shape middle = {0, 0, half};
  const mx::Shape end = {tokens, shape.heads, shape.rotary};

  // The two members of each pair, [tokens, heads, half].
  const auto first = shape.interleaved
                         ? mx::slice(heads, start, end, {1, 1, 2})
                         : mx::slice(heads, start, {tokens, shape.heads, half});
  const auto second = shape.interleaved
                          ? mx::slice(heads, {0, 0, 1}, end, {1, 1, 2})
                          : mx::slice(heads, middle, end);
  const auto turned_first =
      mx::subtract(mx::multiply(first, c), mx::multiply(second, s));
  const auto turned_second =
      mx::add(mx::multiply(second, c), mx::multiply(first, s));
  const auto turned =
      shape.interleaved
          ? mx::reshape(mx::stack({turned_first, turned_second}, -1),
                        {tokens, shape.heads, shape.rotary})
          : mx::concatenate({turned_first, turned_second}, -1);

  const auto rest = mx::slice(heads, {0, 0, shape.rotary},
                              {tokens, shape.heads, shape.head_dim});
  const auto all = mx::concatenate({turned, rest}, -1);
  return mx::astype(mx::reshape(all, x.shape()), x.dtype());
}

}  // namespace reprise::kernels::plain
