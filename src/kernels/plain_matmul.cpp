#include <mlx/device.h>
#include <mlx/ops.h>

#include "kernels/cpu/host_primitive.h"
#include "kernels/plain.h"

// MLX's products in half precision round on the way on the CPU (and take
// forty times as long), so everything is widened first there. On a GPU they
// accumulate in float32 by themselves, and a widened copy of all weights in
// each step is what must not happen.
namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

mx::Dtype product_type(const array& x) {
  return cpu::on_cpu() ? mx::float32 : x.dtype();
}

}  // namespace

array matmul(const array& x, const array& w) {
  return plain::matmul(x, w, x.dtype());
}

array matmul(const array& x, const QuantizedMatrix& w) {
  return plain::matmul(x, w, x.dtype());
}

array matmul(const array& x, const array& w, mx::Dtype out) {
  const auto type = product_type(x);
  return mx::astype(
      mx::matmul(mx::astype(x, type), mx::transpose(mx::astype(w, type))), out);
}

array matmul(const array& x, const QuantizedMatrix& w, mx::Dtype out) {
  const auto type = product_type(x);
  return mx::astype(
      mx::quantized_matmul(
          mx::astype(x, type), w.words, mx::astype(w.scales, type),
          mx::astype(w.biases, type), /*transpose=*/true, w.group_size, w.bits),
      out);
}

array take_rows(const array& w, const array& ids, mx::Dtype dtype) {
  return mx::astype(mx::take(w, ids, 0), dtype);
}

array take_rows(const QuantizedMatrix& w, const array& ids, mx::Dtype dtype) {
  const auto rows = [&](const array& a, mx::Dtype type) {
    return mx::astype(mx::take(a, ids, 0), type);
  };
  return mx::astype(
      mx::dequantize(rows(w.words, mx::uint32), rows(w.scales, mx::float32),
                     rows(w.biases, mx::float32), w.group_size, w.bits),
      dtype);
}

}  // namespace reprise::kernels::plain
