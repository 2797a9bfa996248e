// State rows through a block table, out of MLX's own operations.
#pragma once

#include "kernels/ragged_batch.h"
#include "kernels/state_rows.h"

namespace reprise::kernels::plain {

// Blocks that hold a span's positions after the step.
int blocks_of(const RaggedSpan& span);

// The rows of a span's positions as [heads, positions, dim] in float32, all of
// its blocks; zeros before `first` and from its length on: a mask alone would
// let a NaN of a stale row through the product with the weights.
array gather_state(const StateRows& state, const RaggedSpan& span, int first,
                   int heads);

// Rows of uint8 [n, row bytes] as float32 [n, width].
array dequantize_rows(const array& rows, int width, mlx::core::Dtype dtype,
                      const RowCodec& codec);

}  // namespace reprise::kernels::plain
