#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/ops.h>

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

// Inputs: ids and w, or ids, words, scales and biases.
class TakeRows : public cpu::HostPrimitive {
 public:
  // bits 0: dense.
  TakeRows(int bits, int group_size) : bits_(bits), group_size_(group_size) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    if (out.size() == 0) return;
    const array& ids = inputs[0];
    if (!ids.flags().row_contiguous)
      throw std::runtime_error("[take_rows] ids are not contiguous");
    cpu::TakeRowsTask task;
    task.w = bits_ == 0
                 ? weight_matrix(inputs[1], stream())
                 : weight_matrix(QuantizedMatrix{inputs[1], inputs[2],
                                                 inputs[3], group_size_, bits_},
                                 stream());
    task.ids = ids.data<std::int32_t>();
    task.count = ids.shape(0);
    task.type = element_type(out.dtype());
    task.out = out.data<char>();
    mx::cpu::get_command_encoder(stream()).dispatch(
        [task] { cpu::take_rows(task); });
  }

  const char* name() const override { return "TakeRows"; }

  bool is_equivalent(const Primitive& other) const override {
    const auto& o = static_cast<const TakeRows&>(other);
    return bits_ == o.bits_ && group_size_ == o.group_size_;
  }

 private:
  const int bits_;
  const int group_size_;
};

void check_ids(const array& ids, mx::Dtype dtype) {
  if (ids.ndim() != 1 || ids.dtype() != mx::int32)
    throw std::invalid_argument("[take_rows] ids are not a list of int32");
  if (!is_float(dtype))
    throw std::invalid_argument(
        "[take_rows] rows come as float32, bfloat16 or float16");
}

}  // namespace

array take_rows(const array& w, const array& ids, mx::Dtype dtype) {
  check_matrix("take_rows", w);
  check_ids(ids, dtype);
  if (!cpu::on_cpu()) return plain::take_rows(w, ids, dtype);
  return array({ids.shape(0), w.shape(1)}, dtype,
               std::make_shared<TakeRows>(0, 0), {mx::contiguous(ids), w});
}

array take_rows(const QuantizedMatrix& w, const array& ids, mx::Dtype dtype) {
  check_matrix("take_rows", w);
  check_ids(ids, dtype);
  if (!cpu::on_cpu()) return plain::take_rows(w, ids, dtype);
  return array({ids.shape(0), w.columns()}, dtype,
               std::make_shared<TakeRows>(w.bits, w.group_size),
               {mx::contiguous(ids), w.words, w.scales, w.biases});
}

}  // namespace reprise::kernels
