// The most that a thread of this processor can do: fused multiply-adds on
// registers, with nothing to wait for.
#pragma once

#include "kernels/cpu/isa.h"

namespace reprise::bench {

// Runs `loops` rounds with the registers of `isa`; floating-point operations
// that were done (two for each multiply-add).
double fma_peak(kernels::cpu::Isa isa, int loops);

}  // namespace reprise::bench
