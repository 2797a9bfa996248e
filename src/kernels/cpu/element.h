// Numbers as they lie in memory, for kernels that must not include MLX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::kernels::cpu {

struct BFloat16 {
  std::uint16_t bits;
};

struct Float16 {  // IEEE 754 binary16
  std::uint16_t bits;
};

enum class ElementType { float32, bfloat16, float16 };

}  // namespace reprise::kernels::cpu
