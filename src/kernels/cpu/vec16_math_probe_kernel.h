// Included by vec16_math_probe_<isa>.cpp.
#pragma once

#include "kernels/cpu/vec16_activation.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/vec16_math_probe.h"
#include "kernels/cpu/vec16_tanh.h"
#include "kernels/cpu/vec16_transpose.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

void probe_exp(const float* in, float* out) {
  store(out, exp(load(in)));
}

void probe_tanh(const float* in, float* out) {
  store(out, tanh(load(in)));
}

void probe_sigmoid(const float* in, float* out) {
  store(out, sigmoid(load(in)));
}

void probe_softplus(const float* in, float* out) {
  store(out, softplus(load(in)));
}

void probe_gelu(const float* in, float* out) {
  store(out, gelu(load(in)));
}

void probe_transpose(float* matrix) {
  Vec16 rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = load(matrix + 16 * i);
  transpose(rows);
  for (int i = 0; i < 16; ++i) store(matrix + 16 * i, rows[i]);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
