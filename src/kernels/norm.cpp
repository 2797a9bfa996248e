#include <fmt/format.h>
#include <mlx/array.h>

#include <stdexcept>
#include <string>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/ops.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

void check_heads(const char* op, const array& x, int head_dim) {
  if (x.ndim() != 2 || head_dim < 1 || x.shape(1) % head_dim != 0)
    throw std::invalid_argument(fmt::format(
        "[{}] x must be [rows, dim] with dim a multiple of {}; it has {} axes "
        "of last size {}",
        op, head_dim, x.ndim(), x.ndim() == 0 ? 0 : x.shape(-1)));
}

// A vector [d] that divides x [rows, dim] into heads; d.
int check_weight(const char* op, const array& x, const array& weight) {
  if (weight.ndim() != 1 || weight.shape(0) == 0)
    throw std::invalid_argument(fmt::format(
        "[{}] the weight has {} axes instead of one", op, weight.ndim()));
  check_heads(op, x, weight.shape(0));
  return weight.shape(0);
}

void check_like(const char* op, const array& x, const array& y,
                const char* what) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype())
    throw std::invalid_argument(
        fmt::format("[{}] the {} must have x's shape and dtype", op, what));
}

}  // namespace

array rms_norm(const array& x, const array& weight, float eps) {
  const int head_dim = check_weight("rms_norm", x, weight);
  if (!cpu::on_cpu()) return plain::rms_norm(x, weight, eps);
  return cpu::row_operation(cpu::kRmsNorm, {.eps = eps, .head_dim = head_dim},
                            {x, weight});
}

array unweighted_rms_norm(const array& x, int head_dim, float eps) {
  check_heads("unweighted_rms_norm", x, head_dim);
  if (!cpu::on_cpu()) return plain::unweighted_rms_norm(x, head_dim, eps);
  return cpu::row_operation(cpu::kUnweightedRmsNorm,
                            {.eps = eps, .head_dim = head_dim}, {x});
}

array gated_rms_norm(const array& x, const array& weight, const array& gate,
                     float eps) {
  const int head_dim = check_weight("gated_rms_norm", x, weight);
  check_like("gated_rms_norm", x, gate, "gate");
  if (!cpu::on_cpu()) return plain::gated_rms_norm(x, weight, gate, eps);
  return cpu::row_operation(cpu::kGatedRmsNorm,
                            {.eps = eps, .head_dim = head_dim},
                            {x, weight, gate});
}

array layer_norm(const array& x, const array& weight, const array& bias,
                 float eps) {
  const int head_dim = check_weight("layer_norm", x, weight);
  if (bias.shape() != weight.shape())
    throw std::invalid_argument(
        "[layer_norm] weight and bias must have one shape");
  if (!cpu::on_cpu()) return plain::layer_norm(x, weight, bias, eps);
  return cpu::row_operation(cpu::kLayerNorm, {.eps = eps, .head_dim = head_dim},
                            {x, weight, bias});
}

array l2_norm(const array& x, int head_dim, float eps, float factor) {
  check_heads("l2_norm", x, head_dim);
  if (!cpu::on_cpu()) return plain::l2_norm(x, head_dim, eps, factor);
  return cpu::row_operation(
      cpu::kL2Norm, {.eps = eps, .factor = factor, .head_dim = head_dim}, {x});
}

}  // namespace reprise::kernels
