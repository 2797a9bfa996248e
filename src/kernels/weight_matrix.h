// Checks of matrices for matmul and take_rows, and their views for kernels.
#pragma once

#include <mlx/array.h>

#include "kernels/cpu/matmul_task.h"
#include "kernels/ops.h"

namespace reprise::kernels {

// float32, bfloat16 or float16.
bool is_float(mlx::core::Dtype type);
cpu::ElementType element_type(mlx::core::Dtype type);

// Throw std::invalid_argument "[op] ..." with the shapes and types.
void check_matrix(const char* op, const array& w);
void check_matrix(const char* op, const QuantizedMatrix& w);

// Of evaluated arrays, for eval_cpu on `stream`. Strides that kernels cannot
// walk are copied by a task on the stream, as row_view() does.
cpu::WeightMatrix weight_matrix(const array& w,
                                const mlx::core::Stream& stream);
cpu::WeightMatrix weight_matrix(const QuantizedMatrix& w,
                                const mlx::core::Stream& stream);

}  // namespace reprise::kernels
