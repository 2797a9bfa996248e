// Included by vec16_probe_<isa>.cpp.
#pragma once

#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_probe.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

void probe_vec16(const Vec16Inputs& in, Vec16Outputs& out) {
  const Vec16 a = load(in.a), b = load(in.b), c = load(in.c);
  const auto* bf16 = reinterpret_cast<const BFloat16*>(in.halves);
  const auto* f16 = reinterpret_cast<const Float16*>(in.halves);
  float(*v)[16] = out.values;
  store(v[0], broadcast(in.a[0]));
  store(v[1], zeros());
  store(v[2], load(bf16));
  store(v[3], load(f16));
  store(v[4], load_first(in.a, in.first));
  store(v[5], load_first(bf16, in.first));
  store(v[6], load_first(f16, in.first));
  store_first(v[7], a, in.first);
  store(v[8], fma(a, b, c));
  store(v[9], add(a, b));
  store(v[10], sub(a, b));
  store(v[11], mul(a, b));
  store(v[12], div(a, b));
  store(v[13], sqrt(mul(a, a)));
  store(v[14], min(a, b));
  store(v[15], max(a, b));
  store(v[16], select_less(a, b, b, c));
  store(v[17], round(a));
  store(v[18], scale_by_power(a, max(broadcast(-126), round(min(b, c)))));
  store(v[19], Dequantizer<2>(in.a[0], in.b[0])(in.bytes));
  store(v[20], Dequantizer<3>(in.a[0], in.b[0])(in.bytes));
  store(v[21], Dequantizer<4>(in.a[0], in.b[0])(in.bytes));
  // Fields of 5 and 6 bits are read as plain numbers, too.
  store(v[22], fma(unpack<5>(in.bytes), a,
                   Dequantizer<5>(in.a[0], in.b[0])(in.bytes)));
  store(v[23], fma(unpack<6>(in.bytes), a,
                   Dequantizer<8>(in.a[0], in.b[0])(in.bytes)));
  const AnyOrderDequantizer<4> any(in.a[0], in.b[0]);
  store(v[24], any.from_order(fma(any.to_order(a), any(in.bytes), zeros())));
  store(v[25], fma(a, Dequantizer<4>(in.a[0], in.b[0])(in.bytes), zeros()));
  store(reinterpret_cast<BFloat16*>(out.halves[0]), a);
  store(reinterpret_cast<Float16*>(out.halves[1]), a);
  store_first(reinterpret_cast<BFloat16*>(out.halves[2]), a, in.first);
  store_first(reinterpret_cast<Float16*>(out.halves[3]), a, in.first);
  out.sums[0] = sum(a);
  out.sums[1] = lane_max(a);
  sum4(a, b, c, add(a, b), out.sums + 2);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
