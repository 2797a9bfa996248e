// tanh() of sixteen lanes: within 3 units in the last place everywhere,
// exactly odd, exactly 0 at 0 and 1 far out; NaN stays NaN. Fixed operations,
// so the same bits for every instruction set.
#pragma once

#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

inline Vec16 tanh(Vec16 x) {
  const Vec16 negative = sub(zeros(), x);
  const Vec16 size = max(x, negative);
  // 1 - 2 / (e^2|x| + 1) cancels near 0, where x + x^3 p(x^2) takes over. The
  // coefficients are those of Cephes' tanhf (Moshier), good to |x| = 0.625.
  const Vec16 one = broadcast(1.0f);
  const Vec16 far =
      sub(one, div(broadcast(2.0f), add(exp(add(size, size)), one)));
  const Vec16 square = mul(size, size);
  Vec16 p = broadcast(-5.70498872745e-3f);
  p = fma(p, square, broadcast(2.06390887954e-2f));
  p = fma(p, square, broadcast(-5.37397155531e-2f));
  p = fma(p, square, broadcast(1.33314422036e-1f));
  p = fma(p, square, broadcast(-3.33332819422e-1f));
  const Vec16 near = fma(mul(size, square), p, size);
  // A NaN is not less than anything and comes through `far`.
  const Vec16 result = select_less(size, broadcast(0.625f), near, far);
  return select_less(x, zeros(), sub(zeros(), result), result);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
