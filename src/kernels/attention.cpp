#include "kernels/attention.h"

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include "kernels/cpu/attention_operands.h"
#include "kernels/cpu/attention_run.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

class Attention : public cpu::HostPrimitive {
 public:
  Attention(RaggedBatchPtr batch, cpu::AttentionOperands operands)
      : batch_(std::move(batch)), operands_(std::move(operands)) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mlx::core::allocator::malloc(out.nbytes()));
    cpu::AttentionTask task = operands_.bind(inputs, stream());
    task.out = out.data<char>();
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [task, batch = batch_] { cpu::run_attention(task, *batch); });
  }

  const char* name() const override { return "Attention"; }

 private:
  const RaggedBatchPtr batch_;
  const cpu::AttentionOperands operands_;
};

}  // namespace

array attention(const array& q, const std::vector<StateRows>& keys,
                const StateRows& values, const RaggedBatchPtr& batch,
                const AttentionShape& shape,
                const std::optional<array>& sinks) {
  cpu::check_attention(q, keys, values, sinks, *batch, shape);
  if (!cpu::on_cpu())
    return plain::attention(q, keys, values, batch, shape, sinks);
  std::vector<array> inputs;
  cpu::AttentionOperands operands(q, keys, values, sinks, shape, inputs);
  return array({q.shape(0), shape.heads * shape.values()}, q.dtype(),
               std::make_shared<Attention>(batch, std::move(operands)),
               std::move(inputs));
}

array attention(const array& q, const array& keys, const array& values,
                const RaggedBatchPtr& batch, const AttentionShape& shape) {
  return attention(q, {{.plain = keys, .dim = shape.head_dim}},
                   {.plain = values, .dim = shape.values()}, batch, shape);
}

}  // namespace reprise::kernels
