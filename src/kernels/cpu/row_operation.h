// A graph node for an operation on each row by itself (row_task.h).
#pragma once

#include <mlx/array.h>

#include <vector>

#include "kernels/cpu/row_task.h"

namespace reprise::kernels::cpu {

struct RowOperation {
  const char* name;
  // Runs rows [begin, end) with the instruction set in use.
  void (*run)(const RowTask& task, int begin, int end);
  // Elements of out from which threads are worth their while: some 30 µs of
  // one.
  std::int64_t parallel_elements;
};

// Operands are a, b, c and d of the task, one to four of them. The output has
// the shape and dtype of operands[0], [rows, dim]. `shape` holds what else the
// task needs.
mlx::core::array row_operation(const RowOperation& operation,
                               const RowTask& shape,
                               std::vector<mlx::core::array> operands);

// The same with an output of another shape or dtype.
struct RowOutput {
  int rows = 0;
  int dim = 0;
  mlx::core::Dtype dtype = mlx::core::float32;
};
mlx::core::array row_operation(const RowOperation& operation,
                               const RowTask& shape,
                               std::vector<mlx::core::array> operands,
                               const RowOutput& out);

// The operations, by the names of row_task.h.
extern const RowOperation kRmsNorm, kUnweightedRmsNorm, kGatedRmsNorm,
    kLayerNorm, kL2Norm;
extern const RowOperation kSwiglu, kLimitedSwiglu, kGeglu, kGate, kAdd,
    kSigmoid, kScale, kSoftcap, kDecay;
extern const RowOperation kRope;
extern const RowOperation kExpertSum, kHyperMix, kHyperIn, kHyperOut,
    kHyperMean;

}  // namespace reprise::kernels::cpu
