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

void check_rows(const array& x, const char* op) {
  if (x.ndim() != 2)
    throw std::invalid_argument(std::string("[") + op +
                                "] takes rows [rows, dim]");
}

void check_positive(float value, const char* op, const char* what) {
  if (!(value > 0))
    throw std::invalid_argument(
        fmt::format("[{}] a {} of {}; it must be positive", op, what, value));
}

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

array swiglu(const array& gate, const array& up, float limit) {
  check_alike(gate, up, "swiglu");
  check_positive(limit, "swiglu", "limit");
  if (!cpu::on_cpu()) return plain::swiglu(gate, up, limit);
  return cpu::row_operation(cpu::kLimitedSwiglu, {.factor = limit}, {gate, up});
}

array geglu(const array& gate, const array& up) {
  check_alike(gate, up, "geglu");
  if (!cpu::on_cpu()) return plain::geglu(gate, up);
  return cpu::row_operation(cpu::kGeglu, {}, {gate, up});
}

array sigmoid_gate(const array& x, const array& gate) {
  check_alike(x, gate, "sigmoid_gate");
  if (!cpu::on_cpu()) return plain::sigmoid_gate(x, gate);
  return cpu::row_operation(cpu::kGate, {}, {x, gate});
}

array sigmoid(const array& x) {
  check_rows(x, "sigmoid");
  if (!cpu::on_cpu()) return plain::sigmoid(x);
  return cpu::row_operation(cpu::kSigmoid, {}, {x});
}

array scale(const array& x, float factor) {
  check_rows(x, "scale");
  if (!cpu::on_cpu()) return plain::scale(x, factor);
  return cpu::row_operation(cpu::kScale, {.factor = factor}, {x});
}

array softcap(const array& x, float cap) {
  check_rows(x, "softcap");
  check_positive(cap, "softcap", "cap");
  if (!cpu::on_cpu()) return plain::softcap(x, cap);
  return cpu::row_operation(cpu::kSoftcap, {.factor = cap}, {x});
}

array add(const array& a, const array& b) {
  check_alike(a, b, "add");
  if (!cpu::on_cpu()) return plain::add(a, b);
  return cpu::row_operation(cpu::kAdd, {}, {a, b});
}

}  // namespace reprise::kernels
