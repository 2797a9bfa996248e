// For vec16_test.cpp: one call of every operation of vec16.h, compiled for
// each instruction set, so that their results can be compared bit by bit.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

struct Vec16Inputs {
  float a[16], b[16], c[16];
  std::uint16_t halves[16];  // any bits: read as bfloat16 and as float16
  std::uint8_t bytes[16];    // packed fields, of every width
  int first;                 // for the partial loads and stores
};

inline constexpr int kVec16Values = 26;

// Zeroed by the caller: what partial stores leave alone stays zero.
struct Vec16Outputs {
  float values[kVec16Values][16];
  std::uint16_t halves[4][16];
  float sums[6];
};

REPRISE_DECLARE_PER_ISA(void probe_vec16(const Vec16Inputs& in,
                                         Vec16Outputs& out);)

}  // namespace reprise::kernels::cpu
