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
    task.out_type = element_type(out.dtype());
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

void check_out(mx::Dtype out) {
  if (!is_float(out))
    throw std::invalid_argument(
        "[matmul] products come as float32, bfloat16 or float16");
}

}  // namespace

array matmul(const array& x, const array& w) {
  return matmul(x, w, x.dtype());
}

array matmul(const array& x, const QuantizedMatrix& w) {
  return matmul(x, w, x.dtype());
}

array matmul(const array& x, const array& w, mx::Dtype out) {
  check_matrix("matmul", w);
  check_x(x, w.shape(1));
  check_out(out);
  if (!cpu::on_cpu()) return plain::matmul(x, w, out);
  return array({x.shape(0), w.shape(0)}, out, std::make_shared<Matmul>(0, 0),
               {x, w});
}

array matmul(const array& x, const QuantizedMatrix& w, mx::Dtype out) {
  check_matrix("matmul", w);
  check_x(x, w.columns());
  check_out(out);
  if (!cpu::on_cpu()) return plain::matmul(x, w, out);
  return array({x.shape(0), w.rows()}, out,
               std::make_shared<Matmul>(w.bits, w.group_size),
               {x, w.words, w.scales, w.biases});
}

}  // namespace reprise::kernels
