#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <memory>
#include <stdexcept>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/matmul_task.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

// Inputs: x and w, or x, words, scales and biases.
class Matmul : public cpu::HostPrimitive {
 public:
  // bits 0: dense.
  Matmul(int bits, int group_size) : bits_(bits), group_size_(group_size) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const array& x = inputs[0];
    if (out.size() == 0) return;
    const auto rows = cpu::row_view(x, stream());
    cpu::MatmulTask task;
    task.x = rows.data;
    task.x_row_bytes = rows.row_bytes;
    task.rows = x.shape(0);
    task.type = element_type(x.dtype());
    task.w = bits_ == 0
                 ? weight_matrix(inputs[1], stream())
                 : weight_matrix(QuantizedMatrix{inputs[1], inputs[2],
                                                 inputs[3], group_size_, bits_},
                                 stream());
    task.out = out.data<char>();
    mx::cpu::get_command_encoder(stream()).dispatch(
        [task] { cpu::matmul(task); });
  }

  const char* name() const override { return "Matmul"; }

  bool is_equivalent(const Primitive& other) const override {
    const auto& o = static_cast<const Matmul&>(other);
    return bits_ == o.bits_ && group_size_ == o.group_size_;
  }

 private:
  const int bits_;
  const int group_size_;
};

void check_x(const array& x, int columns) {
  if (x.ndim() != 2 || !is_float(x.dtype()))
    throw std::invalid_argument(
        "[matmul] x is not a matrix of float32, bfloat16 or float16");
  if (x.shape(1) != columns)
    throw std::invalid_argument(fmt::format(
        "[matmul] x has {} columns, the weights have {}", x.shape(1), columns));
}

array product(const array& x, int columns, std::vector<array> inputs, int bits,
              int group_size) {
  return array({x.shape(0), columns}, x.dtype(),
               std::make_shared<Matmul>(bits, group_size), std::move(inputs));
}

}  // namespace

array matmul(const array& x, const array& w) {
  check_matrix("matmul", w);
  check_x(x, w.shape(1));
  if (!cpu::on_cpu()) return plain::matmul(x, w);
  return product(x, w.shape(0), {x, w}, 0, 0);
}

array matmul(const array& x, const QuantizedMatrix& w) {
  check_matrix("matmul", w);
  check_x(x, w.columns());
  if (!cpu::on_cpu()) return plain::matmul(x, w);
  return product(x, w.rows(), {x, w.words, w.scales, w.biases}, w.bits,
                 w.group_size);
}

}  // namespace reprise::kernels
