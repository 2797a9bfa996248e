#include <fmt/format.h>
#include <mlx/array.h>

#include <stdexcept>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/ops.h"
#include "kernels/plain.h"

namespace reprise::kernels {

array rms_norm(const array& x, const array& weight, float eps) {
  if (x.ndim() != 2 || weight.ndim() != 1 || weight.shape(0) != x.shape(1))
    throw std::invalid_argument(fmt::format(
        "[rms_norm] x must be [rows, dim] and the weight [dim]; they have {} "
        "and {} axes of last size {} and {}",
        x.ndim(), weight.ndim(), x.shape(-1), weight.shape(-1)));
  if (!cpu::on_cpu()) return plain::rms_norm(x, weight, eps);
  return cpu::row_operation(cpu::kRmsNorm, {.eps = eps}, {x, weight});
}

}  // namespace reprise::kernels
