#include "kernels/weight_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "base/check.h"
#include "kernels/cpu/host_primitive.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

template <typename... Args>
[[noreturn]] void refuse(const char* op, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw std::invalid_argument(fmt::format(
      "[{}] {}", op, fmt::format(format, std::forward<Args>(args)...)));
}

std::string shape_text(const array& a) {
  return fmt::format("[{}]", fmt::join(a.shape(), ", "));
}

}  // namespace

bool is_float(mx::Dtype type) {
  return type == mx::float32 || type == mx::bfloat16 || type == mx::float16;
}

cpu::ElementType element_type(mx::Dtype type) {
  if (type == mx::float32) return cpu::ElementType::float32;
  if (type == mx::bfloat16) return cpu::ElementType::bfloat16;
  CHECK(type == mx::float16, "a matrix of another type");
  return cpu::ElementType::float16;
}

void check_matrix(const char* op, const array& w) {
  if (w.ndim() != 2) refuse(op, "a matrix has two axes, not {}", shape_text(w));
  if (!is_float(w.dtype()))
    refuse(op, "elements are float32, bfloat16 or float16");
}

void check_matrix(const char* op, const QuantizedMatrix& w) {
  const int bits = w.bits, group = w.group_size;
  if (bits < 2 || bits > 8 || bits == 7)
    refuse(op, "{} bits; 2, 3, 4, 5, 6 and 8 are possible", bits);
  if (group != 32 && group != 64 && group != 128)
    refuse(op, "groups of {}; 32, 64 and 128 are possible", group);
  if (w.words.ndim() != 2 || w.words.dtype() != mx::uint32)
    refuse(op, "packed weights {} are not a matrix of uint32",
           shape_text(w.words));
  if (w.scales.ndim() != 2 || w.scales.shape(0) != w.words.shape(0) ||
      std::int64_t{w.scales.shape(1)} * group * bits !=
          std::int64_t{w.words.shape(1)} * 32)
    refuse(op,
           "scales {} do not fit packed weights {} of {} bits in groups "
           "of {}",
           shape_text(w.scales), shape_text(w.words), bits, group);
  if (w.biases.shape() != w.scales.shape() ||
      w.biases.dtype() != w.scales.dtype() || !is_float(w.scales.dtype()))
    refuse(op,
           "scales {} and biases {} are not alike, or not of float32, "
           "bfloat16 or float16",
           shape_text(w.scales), shape_text(w.biases));
}

cpu::WeightMatrix weight_matrix(const array& w, const mx::Stream& stream) {
  const auto view = cpu::row_view(w, stream);
  cpu::WeightMatrix m;
  m.data = view.data;
  m.row_bytes = view.row_bytes;
  m.rows = w.shape(0);
  m.columns = w.shape(1);
  m.type = element_type(w.dtype());
  return m;
}

cpu::WeightMatrix weight_matrix(const QuantizedMatrix& w,
                                const mx::Stream& stream) {
  const auto words = cpu::row_view(w.words, stream);
  const auto scales = cpu::row_view(w.scales, stream);
  const auto biases = cpu::row_view(w.biases, stream);
  cpu::WeightMatrix m;
  m.data = words.data;
  m.row_bytes = words.row_bytes;
  m.rows = w.rows();
  m.columns = w.columns();
  m.type = element_type(w.scales.dtype());
  m.bits = w.bits;
  m.group_size = w.group_size;
  m.scales = scales.data;
  m.biases = biases.data;
  m.scale_row_bytes = scales.row_bytes;
  m.bias_row_bytes = biases.row_bytes;
  return m;
}

}  // namespace reprise::kernels
