// For vec16_math_test.cpp: vec16_exp.h, vec16_tanh.h, vec16_activation.h and
// vec16_transpose.h, compiled for each instruction set.
#pragma once

#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

REPRISE_DECLARE_PER_ISA(void probe_exp(const float* in, float* out);
                        void probe_tanh(const float* in, float* out);
                        void probe_sigmoid(const float* in, float* out);
                        void probe_softplus(const float* in, float* out);
                        void probe_gelu(const float* in, float* out);
                        void probe_transpose(float* matrix);)

}  // namespace reprise::kernels::cpu
