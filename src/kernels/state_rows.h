// Rows of one state family as they are stored, and as attention reads them.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <optional>

#include "kernels/ragged_batch.h"

namespace reprise::kernels {

using mlx::core::array;

// Affine quantization, as MLX's: each group of a row has a scale and a bias,
// an element is scale * field + bias.
struct RowCodec {
  int bits = 8;         // or 4
  int group_size = 64;  // 32, 64 or 128
};

// Whether rows of `heads` heads of `dim` elements can be quantized: whole
// groups a row, and every head whole vectors of 16. Others stay plain.
bool can_quantize(int heads, int dim, const RowCodec& codec);

// A quantized row of `width` elements of `dtype`: packed fields, in MLX's
// order; then the scales of its groups, then their biases, both of `dtype`.
// 576 elements of bfloat16 in 8 bits with groups of 64: 576 + 18 + 18 bytes.
// (Measured on normal numbers in bfloat16: float32 scales take a sixteenth more
// and lower the error of 8 bits from 0.0073 to 0.0054; for 4 bits they take a
// ninth more and leave it at 0.091. MLX's own bits were worth more.)
std::int64_t quantized_row_bytes(int width, mlx::core::Dtype dtype,
                                 const RowCodec& codec);

// A family's rows. Block ids index both pools alike, and a position decides by
// itself in which one its row is written and read, so nothing is ever
// converted. Pages of a pool where nothing is written cost nothing.
struct StateRows {
  array plain;  // [pool rows, heads * dim], the activations' dtype
  int dim = 0;  // elements of a head
  // uint8 [pool rows, quantized_row_bytes(...)]: rows of positions from
  // `quantized_from` on, a multiple of 256.
  std::optional<array> quantized = std::nullopt;
  RowCodec codec = {};
  int quantized_from = 0;
};

// append() of ops.h for a family in up to two pools: the step's rows
// [T, heads * dim] go where their positions say, copies follow their block.
// Returns the family as this step's reads must see it.
StateRows append(const StateRows& state, const array& rows,
                 const RaggedBatchPtr& batch);

}  // namespace reprise::kernels
