#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <memory>
#include <stdexcept>

#include "kernels/batch_checks.h"
#include "kernels/cpu/delta_task.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/fault.h"
#include "kernels/plain.h"
#include "kernels/recurrence.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

// Inputs: q, k, v, log_decay, beta and pool. Outputs: rows and pool.
class GatedDelta : public cpu::HostMultiPrimitive {
 public:
  GatedDelta(RaggedBatchPtr batch, const DeltaShape& shape)
      : batch_(std::move(batch)), shape_(shape) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    fault_point(FaultStage::eval);
    const array& pool = inputs[5];
    if (!pool.flags().row_contiguous)
      throw std::runtime_error("[gated_delta] the pool is not row-contiguous");
    array& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    // In place, as append() does it.
    outputs[1].copy_shared_buffer(pool);
    const auto rows = [&](const array& a) {
      const auto view = cpu::row_view(a, stream());
      return cpu::DeltaRows{view.data, view.row_bytes, element_type(a.dtype())};
    };
    const cpu::DeltaTask task = {.q = rows(inputs[0]),
                                 .k = rows(inputs[1]),
                                 .v = rows(inputs[2]),
                                 .decay = rows(inputs[3]),
                                 .beta = rows(inputs[4]),
                                 .pool = outputs[1].data<float>(),
                                 .out = out.data<char>(),
                                 .heads = shape_.heads,
                                 .key_dim = shape_.key_dim,
                                 .value_dim = shape_.value_dim};
    mx::cpu::get_command_encoder(stream()).dispatch([task, batch = batch_] {
      fault_point(FaultStage::task);
      cpu::run_gated_delta(task, *batch);
    });
  }

  const char* name() const override { return "GatedDelta"; }

 private:
  const RaggedBatchPtr batch_;
  const DeltaShape shape_;
};

void check_rows(const array& a, const char* what, int rows, int columns) {
  if (a.ndim() != 2 || a.shape(0) != rows || a.shape(1) != columns ||
      !is_float(a.dtype()))
    throw std::invalid_argument(fmt::format(
        "[gated_delta] {} must be float32, bfloat16 or float16 [{}, {}]", what,
        rows, columns));
}

void check_inputs(const DeltaInputs& in, const array& pool,
                  const DeltaShape& s) {
  if (s.heads < 1 || s.key_dim < 1 || s.value_dim < 1)
    throw std::invalid_argument(
        fmt::format("[gated_delta] {} heads of {} keys and {} values", s.heads,
                    s.key_dim, s.value_dim));
  const int rows = in.q.ndim() == 2 ? in.q.shape(0) : 0;
  check_rows(in.q, "q", rows, s.heads * s.key_dim);
  check_rows(in.k, "k", rows, s.heads * s.key_dim);
  check_rows(in.v, "v", rows, s.heads * s.value_dim);
  check_rows(in.log_decay, "log_decay", rows, s.heads * s.key_dim);
  check_rows(in.beta, "beta", rows, s.heads);
  if (in.q.dtype() != in.v.dtype() || in.k.dtype() != in.v.dtype())
    throw std::invalid_argument("[gated_delta] q, k and v must have one dtype");
  const int row = s.heads * s.key_dim * s.value_dim;
  if (pool.ndim() != 2 || pool.shape(1) != row || pool.dtype() != mx::float32 ||
      in.log_decay.dtype() != mx::float32)
    throw std::invalid_argument(fmt::format(
        "[gated_delta] the pool must be float32 [slots, {}], and log_decay "
        "float32",
        row));
}

}  // namespace

Carried gated_delta(const DeltaInputs& inputs, const array& pool,
                    const RaggedBatchPtr& batch, const DeltaShape& shape) {
  fault_point(FaultStage::build);
  check_inputs(inputs, pool, shape);
  check_carried("gated_delta", *batch, inputs.q.shape(0), pool.shape(0));
  if (!cpu::on_cpu())
    throw std::runtime_error(
        "[gated_delta] runs on the CPU only in this build");
  auto outputs = array::make_arrays(
      {inputs.v.shape(), pool.shape()}, {inputs.v.dtype(), mx::float32},
      std::make_shared<GatedDelta>(batch, shape),
      {inputs.q, inputs.k, inputs.v, inputs.log_decay, inputs.beta, pool});
  return {outputs[0], outputs[1]};
}

array decay_gate(const array& x, const array& log_rate, const array& bias,
                 std::optional<float> lower_bound) {
  if (x.ndim() != 2 || log_rate.ndim() != 1 ||
      log_rate.dtype() != mx::float32 || bias.ndim() != 1 ||
      bias.shape(0) != x.shape(1) || log_rate.shape(0) < 1 ||
      x.shape(1) % log_rate.shape(0) != 0)
    throw std::invalid_argument(
        "[decay_gate] x must be [rows, heads * d], log_rate float32 [heads] "
        "and bias [heads * d]");
  if (lower_bound && !(*lower_bound < 0))
    throw std::invalid_argument(fmt::format(
        "[decay_gate] a lower bound of {}; it must be negative", *lower_bound));
  if (!cpu::on_cpu()) return plain::decay_gate(x, log_rate, bias, lower_bound);
  return cpu::row_operation(cpu::kDecay,
                            {.factor = lower_bound.value_or(0.0f),
                             .head_dim = x.shape(1) / log_rate.shape(0)},
                            {x, log_rate, bias},
                            {x.shape(0), x.shape(1), mx::float32});
}

}  // namespace reprise::kernels
