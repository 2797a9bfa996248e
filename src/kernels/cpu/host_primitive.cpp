#include "kernels/cpu/host_primitive.h"

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/device.h>
#include <mlx/utils.h>

#include <cstring>
#include <sstream>

#include "base/check.h"

namespace reprise::kernels::cpu {
namespace {

using mlx::core::array;

struct Strided {
  const char* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;  // elements
  std::size_t itemsize;
};

void copy_packed(const Strided& from, char* to) {
  for (std::int64_t r = 0; r < from.rows; ++r)
    for (std::int64_t c = 0; c < from.columns; ++c) {
      const std::int64_t at = r * from.row_stride + c * from.column_stride;
      std::memcpy(to, from.data + at * static_cast<std::int64_t>(from.itemsize),
                  from.itemsize);
      to += from.itemsize;
    }
}

}  // namespace

bool on_cpu() {
  return mlx::core::default_device() == mlx::core::Device::cpu;
}

mlx::core::Stream current_stream() {
  return mlx::core::to_stream({});
}

ElementType element_type(mlx::core::Dtype dtype, const char* op) {
  if (dtype == mlx::core::float32) return ElementType::float32;
  if (dtype == mlx::core::bfloat16) return ElementType::bfloat16;
  if (dtype == mlx::core::float16) return ElementType::float16;
  std::ostringstream message;
  message << "[" << op << "] takes float32, bfloat16 or float16, not " << dtype;
  throw std::invalid_argument(message.str());
}

RowView row_view(const array& a, const mlx::core::Stream& stream) {
  CHECK(a.ndim() == 1 || a.ndim() == 2, "row_view of {} axes", a.ndim());
  const auto itemsize = static_cast<std::int64_t>(a.itemsize());
  const std::int64_t rows = a.ndim() == 2 ? a.shape(0) : 1;
  const std::int64_t columns = a.shape(-1);
  if (rows * columns == 0) return {};
  const std::int64_t row_stride = a.ndim() == 2 ? a.strides(0) : 0;
  const std::int64_t column_stride = a.strides(-1);
  if (columns == 1 || column_stride == 1)
    return {a.data<char>(), row_stride * itemsize};

  array packed(a.shape(), a.dtype(), nullptr, {});
  packed.set_data(mlx::core::allocator::malloc(packed.nbytes()));
  const Strided from = {a.data<char>(), rows,          columns,
                        row_stride,     column_stride, a.itemsize()};
  auto& encoder = mlx::core::cpu::get_command_encoder(stream);
  encoder.dispatch([from, to = packed.data<char>()] { copy_packed(from, to); });
  const RowView view = {packed.data<char>(), columns * itemsize};
  encoder.add_temporary(std::move(packed));
  return view;
}

}  // namespace reprise::kernels::cpu
