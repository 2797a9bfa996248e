// exp() of sixteen lanes: within 2 units in the last place of e^x for x in
// -87.3..88.3, where both ends hold beyond; exactly 1 at 0; NaN stays NaN.
// Fixed operations, so the same bits for every instruction set.
#pragma once

#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2.
inline Vec16 exp(Vec16 x) {
  // In this order min and max hand on a NaN of x.
  x = max(broadcast(-87.3f), min(broadcast(88.3f), x));
  const Vec16 n = round(mul(x, broadcast(0x1.715476p+0f)));
  // ln 2 in two parts, the first so short that n times it is exact.
  Vec16 r = fma(n, broadcast(-0x1.62ep-1f), x);
  r = fma(n, broadcast(-0x1.0bfbe8p-15f), r);
  // (e^r - 1 - r) / r^2, interpolated at Chebyshev's nodes: e^r to 1e-8.
  Vec16 p = broadcast(0x1.6d10fcp-10f);
  p = fma(p, r, broadcast(0x1.120b62p-7f));
  p = fma(p, r, broadcast(0x1.55551ap-5f));
  p = fma(p, r, broadcast(0x1.5554dep-3f));
  p = fma(p, r, broadcast(0.5f));
  p = fma(p, mul(r, r), r);
  return scale_by_power(add(broadcast(1.0f), p), n);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
