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

void check_dense(const char* op, const array& w, std::size_t axes) {
  if (w.ndim() != axes)
    refuse(op, "weights of {} axes, not {}", axes, shape_text(w));
  if (!is_float(w.dtype()))
    refuse(op, "elements are float32, bfloat16 or float16");
}

void check_packed(const char* op, const QuantizedMatrix& w, std::size_t axes) {
  const int bits = w.bits, group = w.group_size;
  if (bits < 2 || bits > 8 || bits == 7)
    refuse(op, "{} bits; 2, 3, 4, 5, 6 and 8 are possible", bits);
  if (group != 32 && group != 64 && group != 128)
    refuse(op, "groups of {}; 32, 64 and 128 are possible", group);
  if (w.words.ndim() != axes || w.words.dtype() != mx::uint32)
    refuse(op, "packed weights {} are not uint32 of {} axes",
           shape_text(w.words), axes);
  // All axes but the last are the same.
  const auto ahead = [](const array& a) {
    return mx::Shape(a.shape().begin(), a.shape().end() - 1);
  };
  if (w.scales.ndim() != axes || ahead(w.scales) != ahead(w.words) ||
      std::int64_t{w.scales.shape(-1)} * group * bits !=
          std::int64_t{w.words.shape(-1)} * 32)
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

// Of [E, N, ...]: where it begins, from one expert and one row to the next.
struct Stack {
  const char* data;
  std::int64_t bytes, row_bytes;
};

Stack stack_of(const array& a) {
  if (a.shape(2) > 1 && a.strides(2) != 1)
    throw std::runtime_error(
        "[expert_matmul] the rows of the experts' matrices have gaps; make "
        "them contiguous when they are loaded");
  const auto itemsize = static_cast<std::int64_t>(a.itemsize());
  return {a.data<char>(), a.strides(0) * itemsize, a.strides(1) * itemsize};
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
  check_dense(op, w, 2);
}

void check_matrix(const char* op, const QuantizedMatrix& w) {
  check_packed(op, w, 2);
}

void check_experts(const char* op, const array& w) {
  check_dense(op, w, 3);
}

void check_experts(const char* op, const QuantizedExperts& w) {
  check_packed(op, {w.words, w.scales, w.biases, w.group_size, w.bits}, 3);
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

cpu::ExpertMatrices expert_matrices(const array& w) {
  const Stack stack = stack_of(w);
  cpu::ExpertMatrices m;
  m.count = w.shape(0);
  m.bytes = stack.bytes;
  m.first.data = stack.data;
  m.first.row_bytes = stack.row_bytes;
  m.first.rows = w.shape(1);
  m.first.columns = w.shape(2);
  m.first.type = element_type(w.dtype());
  return m;
}

cpu::ExpertMatrices expert_matrices(const QuantizedExperts& w) {
  const Stack words = stack_of(w.words);
  const Stack scales = stack_of(w.scales);
  const Stack biases = stack_of(w.biases);
  cpu::ExpertMatrices m;
  m.count = w.experts();
  m.bytes = words.bytes;
  m.scale_bytes = scales.bytes;
  m.bias_bytes = biases.bytes;
  m.first.data = words.data;
  m.first.row_bytes = words.row_bytes;
  m.first.rows = w.rows();
  m.first.columns = w.columns();
  m.first.type = element_type(w.scales.dtype());
  m.first.bits = w.bits;
  m.first.group_size = w.group_size;
  m.first.scales = scales.data;
  m.first.biases = biases.data;
  m.first.scale_row_bytes = scales.row_bytes;
  m.first.bias_row_bytes = biases.row_bytes;
  return m;
}

}  // namespace reprise::kernels
