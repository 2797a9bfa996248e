// Quantizing rows of state, for any instruction set.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/state_part.h"

namespace reprise::kernels::cpu {

// One row of format.width elements of format.type to format.row_bytes bytes.
// Words, scales and biases have the bits of MLX's affine quantize of the same
// row. A group with something that is not finite gets a scale and a bias that
// are not numbers, so that it stays visible.
REPRISE_DECLARE_PER_ISA(void quantize_row(const RowFormat& format,
                                          const char* row, char* out);)

}  // namespace reprise::kernels::cpu
