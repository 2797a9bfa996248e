#include "kernels/cpu/row_operation.h"

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <algorithm>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

using mlx::core::array;

// Pieces for each thread of a loop: one that is late costs a part of its
// share, not all.
constexpr int kPiecesPerThread = 4;

void run_rows(const RowOperation& operation, const RowTask& task, int rows) {
  if (rows < 2 || std::int64_t{rows} * task.dim < operation.parallel_elements) {
    operation.run(task, 0, rows);
    return;
  }
  const int pieces = std::min(rows, kPiecesPerThread * thread_count());
  parallel_for(pieces, [&](int i) {
    const auto at = [&](int piece) {
      return static_cast<int>(std::int64_t{rows} * piece / pieces);
    };
    operation.run(task, at(i), at(i + 1));
  });
}

class RowPrimitive : public HostPrimitive {
 public:
  RowPrimitive(const RowOperation& operation, const RowTask& shape)
      : operation_(operation), shape_(shape) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mlx::core::allocator::malloc(out.nbytes()));
    RowTask task = shape_;
    const auto view = [&](std::size_t i, const char*& data,
                          std::int64_t& row_bytes) {
      if (i >= inputs.size()) return;
      const auto rows = row_view(inputs[i], stream());
      data = rows.data;
      row_bytes = rows.row_bytes;
    };
    view(0, task.a, task.a_row_bytes);
    view(1, task.b, task.b_row_bytes);
    view(2, task.c, task.c_row_bytes);
    view(3, task.d, task.d_row_bytes);
    task.out = out.data<char>();
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [task, operation = operation_, rows = out.shape(0)] {
          run_rows(operation, task, rows);
        });
  }

  const char* name() const override { return operation_.name; }

 private:
  const RowOperation operation_;
  const RowTask shape_;
};

}  // namespace

array row_operation(const RowOperation& operation, const RowTask& shape,
                    std::vector<array> operands) {
  const array& a = operands[0];
  return row_operation(operation, shape, std::move(operands),
                       {a.shape(0), a.shape(1), a.dtype()});
}

array row_operation(const RowOperation& operation, const RowTask& shape,
                    std::vector<array> operands, const RowOutput& out) {
  RowTask task = shape;
  const auto type = [&](std::size_t i) {
    return i < operands.size()
               ? element_type(operands[i].dtype(), operation.name)
               : ElementType::float32;
  };
  task.type = type(0);
  task.b_type = type(1);
  task.c_type = type(2);
  task.dim = out.dim;
  return array({out.rows, out.dim}, out.dtype,
               std::make_shared<RowPrimitive>(operation, task),
               std::move(operands));
}

// Calls the kernel of the instruction set in use.
#define REPRISE_ROWS(function)                    \
  [](const RowTask& task, int begin, int end) {   \
    REPRISE_PICK_ISA(function)(task, begin, end); \
  }

const RowOperation kRmsNorm = {"rms_norm", REPRISE_ROWS(rms_norm_rows),
                               300'000};
const RowOperation kUnweightedRmsNorm = {
    "unweighted_rms_norm", REPRISE_ROWS(unweighted_rms_norm_rows), 300'000};
const RowOperation kGatedRmsNorm = {"gated_rms_norm",
                                    REPRISE_ROWS(gated_rms_norm_rows), 80'000};
const RowOperation kLayerNorm = {"layer_norm", REPRISE_ROWS(layer_norm_rows),
                                 200'000};
const RowOperation kL2Norm = {"l2_norm", REPRISE_ROWS(l2_norm_rows), 300'000};

const RowOperation kSwiglu = {"swiglu", REPRISE_ROWS(swiglu_rows), 100'000};
const RowOperation kLimitedSwiglu = {
    "limited_swiglu", REPRISE_ROWS(limited_swiglu_rows), 100'000};
const RowOperation kGeglu = {"geglu", REPRISE_ROWS(geglu_rows), 60'000};
const RowOperation kGate = {"sigmoid_gate", REPRISE_ROWS(gate_rows), 100'000};
const RowOperation kAdd = {"add", REPRISE_ROWS(add_rows), 300'000};
const RowOperation kSigmoid = {"sigmoid", REPRISE_ROWS(sigmoid_rows), 100'000};
const RowOperation kScale = {"scale", REPRISE_ROWS(scale_rows), 400'000};
const RowOperation kSoftcap = {"softcap", REPRISE_ROWS(softcap_rows), 80'000};
const RowOperation kDecay = {"decay_gate", REPRISE_ROWS(decay_rows), 80'000};

const RowOperation kRope = {"rope", REPRISE_ROWS(rope_rows), 200'000};

const RowOperation kExpertSum = {"expert_sum", REPRISE_ROWS(expert_sum_rows),
                                 60'000};
// One row is thousands of numbers in and some twenty out.
const RowOperation kHyperMix = {"hyper_mix", REPRISE_ROWS(hyper_mix_rows), 200};
const RowOperation kHyperIn = {"hyper_in", REPRISE_ROWS(hyper_in_rows), 60'000};
const RowOperation kHyperOut = {"hyper_out", REPRISE_ROWS(hyper_out_rows),
                                100'000};
const RowOperation kHyperMean = {"hyper_mean", REPRISE_ROWS(hyper_mean_rows),
                                 60'000};

}  // namespace reprise::kernels::cpu
