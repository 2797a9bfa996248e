// The activation functions of sixteen lanes, out of exp() and tanh(): fixed
// operations, the same bits for every instruction set; NaN stays NaN.
#pragma once

#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/vec16_tanh.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// 1 / (1 + e^-x).
inline Vec16 sigmoid(Vec16 x) {
  const Vec16 one = broadcast(1.0f);
  return div(one, add(one, exp(sub(zeros(), x))));
}

// x / (1 + e^-x).
inline Vec16 silu(Vec16 x) {
  return div(x, add(broadcast(1.0f), exp(sub(zeros(), x))));
}

// ln(1 + e^x), within 3 units in the last place.
inline Vec16 softplus(Vec16 x) {
  // In this order min and max hand on a NaN of x.
  const Vec16 positive = max(zeros(), x);
  const Vec16 u = exp(min(x, sub(zeros(), x)));
  // ln(1 + u) = 2 artanh(u / (2 + u)), a series in s^2 <= 1/9.
  const Vec16 s = div(u, add(broadcast(2.0f), u));
  const Vec16 square = mul(s, s);
  Vec16 p = broadcast(2.0f / 13);
  p = fma(p, square, broadcast(2.0f / 11));
  p = fma(p, square, broadcast(2.0f / 9));
  p = fma(p, square, broadcast(2.0f / 7));
  p = fma(p, square, broadcast(2.0f / 5));
  p = fma(p, square, broadcast(2.0f / 3));
  return add(positive, fma(mul(s, square), p, add(s, s)));
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
// (Hendrycks and Gimpel 2016, arXiv:1606.08415)
inline Vec16 gelu(Vec16 x) {
  const Vec16 cube = mul(mul(x, x), x);
  const Vec16 inner =
      mul(broadcast(0.7978845608f), fma(cube, broadcast(0.044715f), x));
  const Vec16 half = mul(broadcast(0.5f), x);
  return fma(half, tanh(inner), half);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
