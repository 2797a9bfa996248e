// For vec16_math_test.cpp: vec16_exp.h and vec16_transpose.h, compiled for
// each instruction set.
#pragma once

#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

REPRISE_DECLARE_PER_ISA(void probe_exp(const float* in, float* out);
                        void probe_transpose(float* matrix);)

}  // namespace reprise::kernels::cpu
