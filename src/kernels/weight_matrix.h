// Checks of matrices for matmul, take_rows and expert_matmul, and their views
// for kernels.
#pragma once

#include <mlx/array.h>

#include "kernels/cpu/expert_task.h"
#include "kernels/cpu/matmul_task.h"
#include "kernels/experts.h"
#include "kernels/ops.h"

namespace reprise::kernels {

// float32, bfloat16 or float16.
bool is_float(mlx::core::Dtype type);
cpu::ElementType element_type(mlx::core::Dtype type);

// Throw std::invalid_argument "[op] ..." with the shapes and types.
void check_matrix(const char* op, const array& w);
void check_matrix(const char* op, const QuantizedMatrix& w);
void check_experts(const char* op, const array& w);
void check_experts(const char* op, const QuantizedExperts& w);

// Of evaluated arrays, for eval_cpu on `stream`. Strides that kernels cannot
// walk are copied by a task on the stream, as row_view() does.
cpu::WeightMatrix weight_matrix(const array& w,
                                const mlx::core::Stream& stream);
cpu::WeightMatrix weight_matrix(const QuantizedMatrix& w,
                                const mlx::core::Stream& stream);

// The same of experts, whose rows must have unit stride: std::runtime_error
// otherwise.
cpu::ExpertMatrices expert_matrices(const array& w);
cpu::ExpertMatrices expert_matrices(const QuantizedExperts& w);

}  // namespace reprise::kernels
