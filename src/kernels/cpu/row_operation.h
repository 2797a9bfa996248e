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
  // Elements from which threads are worth their while: some 30 µs of one.
  std::int64_t parallel_elements;
};

// The output has the shape and dtype of operands[0], [rows, dim]; there are
// two or three operands, a, b and c of the task. `shape` holds what else the
// task needs.
mlx::core::array row_operation(const RowOperation& operation,
                               const RowTask& shape,
                               std::vector<mlx::core::array> operands);

// The operations.
extern const RowOperation kRmsNorm;
extern const RowOperation kSwiglu;
extern const RowOperation kAdd;
extern const RowOperation kRope;

}  // namespace reprise::kernels::cpu
