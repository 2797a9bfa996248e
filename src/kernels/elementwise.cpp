#include <mlx/array.h>

#include <stdexcept>
#include <string>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/ops.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

void check_alike(const array& a, const array& b, const char* op) {
  if (a.ndim() != 2 || a.shape() != b.shape() || a.dtype() != b.dtype())
    throw std::invalid_argument(
        std::string("[") + op +
        "] both operands must be [rows, dim] with the same shape and dtype");
}

}  // namespace

array swiglu(const array& gate, const array& up) {
  check_alike(gate, up, "swiglu");
  if (!cpu::on_cpu()) return plain::swiglu(gate, up);
  return cpu::row_operation(cpu::kSwiglu, {}, {gate, up});
}

array add(const array& a, const array& b) {
  check_alike(a, b, "add");
  if (!cpu::on_cpu()) return plain::add(a, b);
  return cpu::row_operation(cpu::kAdd, {}, {a, b});
}

}  // namespace reprise::kernels
