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
    const auto a = row_view(inputs[0], stream());
    const auto b = row_view(inputs[1], stream());
    task.a = a.data;
    task.a_row_bytes = a.row_bytes;
    task.b = b.data;
    task.b_row_bytes = b.row_bytes;
    if (inputs.size() > 2) {
      const auto c = row_view(inputs[2], stream());
      task.c = c.data;
      task.c_row_bytes = c.row_bytes;
    }
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
  RowTask task = shape;
  task.type = element_type(operands[0].dtype(), operation.name);
  task.b_type = element_type(operands[1].dtype(), operation.name);
  task.dim = operands[0].shape(1);
  const array& a = operands[0];
  return array(a.shape(), a.dtype(),
               std::make_shared<RowPrimitive>(operation, task),
               std::move(operands));
}

const RowOperation kRmsNorm = {"rms_norm",
                               [](const RowTask& task, int begin, int end) {
                                 REPRISE_PICK_ISA(rms_norm_rows)
                                 (task, begin, end);
                               },
                               300'000};

const RowOperation kSwiglu = {"swiglu",
                              [](const RowTask& task, int begin, int end) {
                                REPRISE_PICK_ISA(swiglu_rows)(task, begin, end);
                              },
                              100'000};

const RowOperation kAdd = {"add",
                           [](const RowTask& task, int begin, int end) {
                             REPRISE_PICK_ISA(add_rows)(task, begin, end);
                           },
                           300'000};

const RowOperation kRope = {"rope",
                            [](const RowTask& task, int begin, int end) {
                              REPRISE_PICK_ISA(rope_rows)(task, begin, end);
                            },
                            200'000};

}  // namespace reprise::kernels::cpu
