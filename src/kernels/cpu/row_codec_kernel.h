// The kernel of row_codec_task.h, compiled once for every instruction set by
// row_codec_<set>.cpp.
#pragma once

#include "kernels/cpu/row_codec.h"
#include "kernels/cpu/row_codec_task.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

void quantize_row(const RowFormat& format, const char* row, char* out) {
  switch (format.type) {
    case ElementType::float32:
      return quantize_row_as(format, reinterpret_cast<const float*>(row), out);
    case ElementType::bfloat16:
      return quantize_row_as(format, reinterpret_cast<const BFloat16*>(row),
                             out);
    case ElementType::float16:
      return quantize_row_as(format, reinterpret_cast<const Float16*>(row),
                             out);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
