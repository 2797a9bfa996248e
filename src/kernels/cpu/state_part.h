// State rows of one family in their pools as plain data: what a kernel of any
// instruction set is handed. kernels/state_rows.h has the contract.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"

namespace reprise::kernels::cpu {

// How a row of `width` elements of `type` is quantized: `words_bytes` bytes of
// packed fields, then `groups` scales and `groups` biases of `type`.
struct RowFormat {
  ElementType type = ElementType::float32;
  int width = 0;
  int bits = 8;  // or 4
  int group_size = 64;
  int words_bytes = 0;
  int groups = 0;
  std::int64_t row_bytes = 0;
};

struct StatePart {
  const char* plain = nullptr;  // [pool rows, heads * dim]
  std::int64_t plain_row_bytes = 0;
  const char* quantized = nullptr;  // [pool rows, format.row_bytes]
  RowFormat format;
  // Rows of positions from here on are read in `quantized`. A multiple of the
  // tokens of a block.
  int quantized_from = 0x7fffffff;
  int dim = 0;  // elements of a head
};

}  // namespace reprise::kernels::cpu
