#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <memory>
#include <stdexcept>

#include "kernels/batch_checks.h"
#include "kernels/cpu/conv_task.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/fault.h"
#include "kernels/recurrence.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

// Inputs: x, weight and pool. Outputs: rows and pool.
class ShortConv : public cpu::HostMultiPrimitive {
 public:
  ShortConv(RaggedBatchPtr batch, bool silu)
      : batch_(std::move(batch)), silu_(silu) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    fault_point(FaultStage::eval);
    const array& x = inputs[0];
    const array& weight = inputs[1];
    const array& pool = inputs[2];
    if (!pool.flags().row_contiguous)
      throw std::runtime_error("[short_conv] the pool is not row-contiguous");
    array& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    // In place, as append() does it.
    outputs[1].copy_shared_buffer(pool);
    const auto rows = cpu::row_view(x, stream());
    const auto taps = cpu::row_view(weight, stream());
    const cpu::ConvTask task = {.x = rows.data,
                                .x_row_bytes = rows.row_bytes,
                                .weight = taps.data,
                                .weight_row_bytes = taps.row_bytes,
                                .weight_type = element_type(weight.dtype()),
                                .pool = outputs[1].data<char>(),
                                .out = out.data<char>(),
                                .type = element_type(x.dtype()),
                                .channels = weight.shape(1),
                                .taps = weight.shape(0),
                                .silu = silu_};
    mx::cpu::get_command_encoder(stream()).dispatch([task, batch = batch_] {
      fault_point(FaultStage::task);
      cpu::run_short_conv(task, *batch);
    });
  }

  const char* name() const override { return "ShortConv"; }

 private:
  const RaggedBatchPtr batch_;
  const bool silu_;
};

void check_shapes(const array& x, const array& weight, const array& pool) {
  if (weight.ndim() != 2 || weight.shape(0) < 2 ||
      weight.shape(0) > cpu::kConvTaps || weight.shape(1) == 0 ||
      !is_float(weight.dtype()))
    throw std::invalid_argument(fmt::format(
        "[short_conv] the weight must be float32, bfloat16 or float16 [taps, "
        "channels] with 2 to {} taps",
        cpu::kConvTaps));
  const int taps = weight.shape(0), channels = weight.shape(1);
  if (x.ndim() != 2 || x.shape(1) != channels || !is_float(x.dtype()))
    throw std::invalid_argument(fmt::format(
        "[short_conv] x must be float32, bfloat16 or float16 rows of {}",
        channels));
  if (pool.ndim() != 2 || pool.shape(1) != (taps - 1) * channels ||
      pool.dtype() != x.dtype())
    throw std::invalid_argument(
        fmt::format("[short_conv] the pool must be [slots, {}] of x's dtype",
                    (taps - 1) * channels));
}

}  // namespace

Carried short_conv(const array& x, const array& weight, const array& pool,
                   const RaggedBatchPtr& batch, bool silu) {
  fault_point(FaultStage::build);
  check_shapes(x, weight, pool);
  check_carried("short_conv", *batch, x.shape(0), pool.shape(0));
  if (!cpu::on_cpu())
    throw std::runtime_error("[short_conv] runs on the CPU only in this build");
  auto outputs = array::make_arrays(
      {x.shape(), pool.shape()}, {x.dtype(), pool.dtype()},
      std::make_shared<ShortConv>(batch, silu), {x, weight, pool});
  return {outputs[0], outputs[1]};
}

}  // namespace reprise::kernels
