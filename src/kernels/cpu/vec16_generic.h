// Vec16 as an array, for any processor. See vec16.h. Plain loops: a compiler
// may make them vectors of whatever the processor has.
#pragma once

#include "kernels/cpu/element.h"

namespace reprise::kernels::cpu::generic {

struct Vec16 {
  float lane[16];
};

// f(i) for each lane.
template <typename F>
inline Vec16 make_lanes(F f) {
  Vec16 v;
  for (int i = 0; i < 16; ++i) v.lane[i] = f(i);
  return v;
}

inline float to_float(float x) {
  return x;
}
inline float to_float(BFloat16 x) {
  return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
}
inline float to_float(Float16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ffu;
  std::uint32_t magnitude;
  if (exponent == 0)  // subnormal: exact as a product
    magnitude = __builtin_bit_cast(std::uint32_t,
                                   static_cast<float>(fraction) * 0x1p-24f);
  else if (exponent == 31)  // infinity, or a NaN made quiet
    magnitude = 0x7f800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0);
  else
    magnitude = (exponent + 112) << 23 | fraction << 13;
  return __builtin_bit_cast(float, sign | magnitude);
}

inline void from_float(float x, float* out) {
  *out = x;
}
inline void from_float(float x, BFloat16* out) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  out->bits = static_cast<std::uint16_t>(x != x ? 0x7fc0 : rounded >> 16);
}
inline void from_float(float x, Float16* out) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t size = bits & 0x7fffffff;
  std::uint32_t half;
  if (size > 0x7f800000)
    half = 0x7e00 | (size >> 13 & 0x3ff);
  else if (size >= 0x477ff000)  // 65520 and more round to infinity
    half = 0x7c00;
  else if (size < 0x38800000)  // below 2^-14: 0.5's last place is 2^-24
    half = __builtin_bit_cast(std::uint32_t,
                              __builtin_bit_cast(float, size) + 0.5f) -
           0x3f000000;
  else
    half = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  out->bits = static_cast<std::uint16_t>((bits >> 16 & 0x8000) | half);
}

inline Vec16 broadcast(float x) {
  return make_lanes([&](int) { return x; });
}
inline Vec16 zeros() {
  return broadcast(0);
}

template <typename T>
inline Vec16 load(const T* p) {
  return make_lanes([&](int i) { return to_float(p[i]); });
}
template <typename T>
inline Vec16 load_first(const T* p, int n) {
  return make_lanes([&](int i) { return i < n ? to_float(p[i]) : 0.0f; });
}
template <typename T>
inline void store_first(T* p, const Vec16& v, int n) {
  for (int i = 0; i < n; ++i) from_float(v.lane[i], &p[i]);
}
template <typename T>
inline void store(T* p, const Vec16& v) {
  store_first(p, v, 16);
}

inline Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
  return make_lanes(
      [&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
inline Vec16 add(const Vec16& a, const Vec16& b) {
  return make_lanes([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec16 sub(const Vec16& a, const Vec16& b) {
  return make_lanes([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec16 mul(const Vec16& a, const Vec16& b) {
  return make_lanes([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec16 div(const Vec16& a, const Vec16& b) {
  return make_lanes([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline Vec16 sqrt(const Vec16& v) {
  return make_lanes([&](int i) { return __builtin_sqrtf(v.lane[i]); });
}
inline Vec16 select_less(const Vec16& a, const Vec16& b, const Vec16& x,
                         const Vec16& y) {
  return make_lanes(
      [&](int i) { return a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]; });
}
inline Vec16 min(const Vec16& a, const Vec16& b) {
  return select_less(a, b, a, b);
}
inline Vec16 max(const Vec16& a, const Vec16& b) {
  return select_less(b, a, a, b);
}
inline Vec16 round(const Vec16& v) {
  return make_lanes([&](int i) { return __builtin_nearbyintf(v.lane[i]); });
}
inline Vec16 scale_by_power(const Vec16& v, const Vec16& n) {
  return make_lanes([&](int i) {
    const auto exponent = static_cast<std::int32_t>(n.lane[i]) + 127;
    return v.lane[i] * __builtin_bit_cast(float, exponent << 23);
  });
}

inline float sum(Vec16 v) {
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) v.lane[i] = v.lane[i] + v.lane[i + step];
  return v.lane[0];
}
inline void sum4(const Vec16& a, const Vec16& b, const Vec16& c, const Vec16& d,
                 float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
inline float lane_max(Vec16 v) {
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i)
      v.lane[i] = v.lane[i] > v.lane[i + step] ? v.lane[i] : v.lane[i + step];
  return v.lane[0];
}

template <int kBits>
inline Vec16 unpack(const std::uint8_t* p) {
  return make_lanes([&](int i) {
    const int bit = i * kBits;
    // The second byte is read only where the field reaches into it.
    unsigned field = p[bit / 8] >> bit % 8;
    if (bit % 8 + kBits > 8) field |= p[bit / 8 + 1] << (8 - bit % 8);
    return static_cast<float>(field & ((1u << kBits) - 1));
  });
}

template <int kBits>
class Dequantizer {
 public:
  Dequantizer() = default;
  Dequantizer(float scale, float bias)
      : scale_(broadcast(scale)), bias_(broadcast(bias)) {}
  Vec16 operator()(const std::uint8_t* p) const {
    return fma(unpack<kBits>(p), scale_, bias_);
  }

 private:
  Vec16 scale_, bias_;
};

template <int kBits>
class AnyOrderDequantizer : public Dequantizer<kBits> {
 public:
  using Dequantizer<kBits>::Dequantizer;
  static Vec16 to_order(const Vec16& v) { return v; }
  static Vec16 from_order(const Vec16& v) { return v; }
};

}  // namespace reprise::kernels::cpu::generic
