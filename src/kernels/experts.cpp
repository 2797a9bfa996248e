#include "kernels/experts.h"

#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <memory>
#include <stdexcept>

#include "kernels/cpu/expert_task.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/plain.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

// Inputs: x, ids and w, or x, ids, words, scales and biases.
class ExpertMatmul : public cpu::HostPrimitive {
 public:
  // bits 0: dense.
  ExpertMatmul(int bits, int group_size)
      : bits_(bits), group_size_(group_size) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    if (out.size() == 0) return;
    const array& x = inputs[0];
    const array& ids = inputs[1];
    const auto rows = cpu::row_view(x, stream());
    const auto id_rows = cpu::row_view(ids, stream());
    cpu::ExpertTask task;
    task.x = rows.data;
    task.x_row_bytes = rows.row_bytes;
    task.type = element_type(x.dtype());
    task.w = bits_ == 0
                 ? expert_matrices(inputs[2])
                 : expert_matrices(QuantizedExperts{
                       inputs[2], inputs[3], inputs[4], group_size_, bits_});
    task.ids = id_rows.data;
    task.id_row_bytes = id_rows.row_bytes;
    task.slots_per_token = ids.shape(1);
    task.slots = out.shape(0);
    task.slots_per_row = task.slots / x.shape(0);
    task.out = out.data<char>();
    mx::cpu::get_command_encoder(stream()).dispatch(
        [task] { cpu::expert_matmul(task); });
  }

  const char* name() const override { return "ExpertMatmul"; }

  bool is_equivalent(const Primitive& other) const override {
    const auto& o = static_cast<const ExpertMatmul&>(other);
    return bits_ == o.bits_ && group_size_ == o.group_size_;
  }

 private:
  const int bits_;
  const int group_size_;
};

void check_operands(const array& x, const array& ids, int columns) {
  if (ids.ndim() != 2 || ids.dtype() != mx::int32 || ids.shape(1) == 0)
    throw std::invalid_argument(
        "[expert_matmul] ids are not int32 [tokens, choices]");
  if (x.ndim() != 2 || !is_float(x.dtype()) || x.shape(1) != columns)
    throw std::invalid_argument(
        fmt::format("[expert_matmul] x must be float32, bfloat16 or float16 "
                    "rows of {} columns",
                    columns));
  const int tokens = ids.shape(0), slots = tokens * ids.shape(1);
  if (x.shape(0) != tokens && x.shape(0) != slots)
    throw std::invalid_argument(fmt::format(
        "[expert_matmul] {} rows for {} tokens of {} choices; one a token or "
        "one a choice is possible",
        x.shape(0), tokens, ids.shape(1)));
}

}  // namespace

array expert_matmul(const array& x, const array& w, const array& ids) {
  check_experts("expert_matmul", w);
  check_operands(x, ids, w.shape(2));
  if (!cpu::on_cpu()) return plain::expert_matmul(x, w, ids);
  return array({ids.shape(0) * ids.shape(1), w.shape(1)}, x.dtype(),
               std::make_shared<ExpertMatmul>(0, 0), {x, ids, w});
}

array expert_matmul(const array& x, const QuantizedExperts& w,
                    const array& ids) {
  check_experts("expert_matmul", w);
  check_operands(x, ids, w.columns());
  if (!cpu::on_cpu()) return plain::expert_matmul(x, w, ids);
  return array({ids.shape(0) * ids.shape(1), w.rows()}, x.dtype(),
               std::make_shared<ExpertMatmul>(w.bits, w.group_size),
               {x, ids, w.words, w.scales, w.biases});
}

array expert_sum(const array& y, const array& weights) {
  if (weights.ndim() != 2 || weights.dtype() != mx::float32)
    throw std::invalid_argument(
        "[expert_sum] weights are not float32 [tokens, choices]");
  const int tokens = weights.shape(0), choices = weights.shape(1);
  if (y.ndim() != 2 || y.shape(0) != tokens * choices)
    throw std::invalid_argument(fmt::format(
        "[expert_sum] y must have a row for each of {} choices of {} tokens",
        choices, tokens));
  if (!cpu::on_cpu()) return plain::expert_sum(y, weights);
  return cpu::row_operation(cpu::kExpertSum, {.terms = choices}, {y, weights},
                            {tokens, y.shape(1), y.dtype()});
}

}  // namespace reprise::kernels
