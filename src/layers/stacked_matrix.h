// One matrix for each expert, or for each head: [count, out, in], dense or
// quantized as the checkpoint stores them.
#pragma once

#include <mlx/array.h>

#include <string>
#include <variant>

#include "kernels/experts.h"
#include "weights/checkpoint.h"

namespace reprise {

using StackedMatrix = std::variant<mlx::core::array, kernels::QuantizedExperts>;

struct StackedShape {
  int count = 0;
  int out = 0;
  int in = 0;
};

// The matrices of "<module>.weight", quantized or not. Throws
// std::runtime_error naming the tensor and both shapes unless it is of `shape`.
StackedMatrix load_stacked(const Checkpoint& checkpoint,
                           const std::string& module,
                           const StackedShape& shape);

// The tensor `name` itself, plain. Throws as load_stacked.
mlx::core::array load_stacked_tensor(const Checkpoint& checkpoint,
                                     const std::string& name,
                                     const StackedShape& shape);

// Those of "<list>.<i>.<part>.weight" on one another: a copy. Throws as
// load_stacked, and for quantized ones.
mlx::core::array load_stacked_list(const Checkpoint& checkpoint,
                                   const std::string& list, const char* part,
                                   const StackedShape& shape);

// Rows [begin, end) of each matrix; shares its memory.
StackedMatrix stacked_rows(const StackedMatrix& matrices, int begin, int end);

// kernels::expert_matmul of either kind.
mlx::core::array stacked_matmul(const mlx::core::array& x,
                                const StackedMatrix& matrices,
                                const mlx::core::array& ids);

// The product of each head with its own matrix: x [T, count * in] →
// [T, count * out].
mlx::core::array head_matmul(const mlx::core::array& x,
                             const StackedMatrix& matrices);

}  // namespace reprise
