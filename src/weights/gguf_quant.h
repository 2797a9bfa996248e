// GGUF's quantized blocks in MLX's affine layout, without loss: the fields are
// moved, never rounded. Formats: ggml's block_q4_0, block_q4_1, block_q8_0.
//
//   Q4_0  (q - 8) d  = d q - 8 d        group 32, 4 bits
//   Q4_1  d q + m                       group 32, 4 bits
//   Q8_0  q d        = d (q + 128) - 128 d   group 32, 8 bits
//
// Plain memory, no MLX: the caller owns source and destination. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/gguf_file.h"

namespace reprise {

inline constexpr int kGgufGroupSize = 32;  // elements of a block

// 4 or 8; 0 if the type is not one of the three.
int gguf_quant_bits(GgufType type);

// True if the bias of every block is exact in float16. It is -8 d or -128 d,
// a change of exponent, so the only way out is past 65504. Whole blocks.
bool gguf_biases_fit_half(GgufType type, std::span<const std::byte> blocks);

// Where block 0 goes. Scales and biases are float16 bits, or float32 when
// `half` is false.
struct GgufRepackTarget {
  std::uint32_t* words = nullptr;  // 32 * bits / 32 a block
  void* scales = nullptr;          // 1 a block
  void* biases = nullptr;          // 1 a block
  bool half = true;
};

// Repacks whole blocks to the places of blocks first_block, first_block + 1,
// ... of the target. With half, gguf_biases_fit_half must hold.
void gguf_repack(GgufType type, std::span<const std::byte> blocks,
                 std::size_t first_block, const GgufRepackTarget& target);

}  // namespace reprise
