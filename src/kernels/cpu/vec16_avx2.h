// Vec16 in two AVX registers (AVX2, FMA, F16C). See vec16.h.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/bit_fields.h"
#include "kernels/cpu/element.h"

namespace reprise::kernels::cpu::avx2 {

struct Vec16 {
  __m256 low, high;
};

inline Vec16 broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Vec16 zeros() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}

inline Vec16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline __m256 widen_bfloat16(__m128i bits) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec16 load(const BFloat16* p) {
  return {widen_bfloat16(_mm_loadu_si128((const __m128i*)p)),
          widen_bfloat16(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
inline Vec16 load(const Float16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
template <typename T>
inline Vec16 load_first(const T* p, int n) {
  T padded[16] = {};
  for (int i = 0; i < n; ++i) padded[i] = p[i];
  return load(padded);
}

inline __m256i round_to_bfloat16(__m256 x) {  // in the low halves
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd),
      16);
  return _mm256_blendv_epi8(
      rounded, _mm256_set1_epi32(0x7fc0),
      _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
inline void store(float* p, Vec16 x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
inline void store(BFloat16* p, Vec16 x) {
  // The pack works within 128 bits: quarters come out 0 2 1 3.
  const __m256i packed =
      _mm256_packus_epi32(round_to_bfloat16(x.low), round_to_bfloat16(x.high));
  _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
inline void store(Float16* p, Vec16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(x.low, kNearest));
  _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(x.high, kNearest));
}
template <typename T>
inline void store_first(T* p, Vec16 x, int n) {
  T all[16];
  store(all, x);
  for (int i = 0; i < n; ++i) p[i] = all[i];
}

inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low),
          _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec16 add(Vec16 a, Vec16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Vec16 sub(Vec16 a, Vec16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Vec16 mul(Vec16 a, Vec16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Vec16 div(Vec16 a, Vec16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Vec16 sqrt(Vec16 a) {
  return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
inline Vec16 min(Vec16 a, Vec16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Vec16 max(Vec16 a, Vec16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Vec16 select_less(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
  return {
      _mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
      _mm256_blendv_ps(y.high, x.high,
                       _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
inline Vec16 round(Vec16 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
}
inline __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
inline Vec16 scale_by_power(Vec16 a, Vec16 n) {
  return mul(a, {power_of_two(n.low), power_of_two(n.high)});
}

inline float sum(Vec16 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                                 _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// The halves that are to be added are brought together from several vectors,
// so that one addition serves them all.
inline void sum4(Vec16 a, Vec16 b, Vec16 c, Vec16 d, float* out) {
  const __m256 a8 = _mm256_add_ps(a.low, a.high);
  const __m256 b8 = _mm256_add_ps(b.low, b.high);
  const __m256 c8 = _mm256_add_ps(c.low, c.high);
  const __m256 d8 = _mm256_add_ps(d.low, d.high);
  const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20),
                                  _mm256_permute2f128_ps(a8, b8, 0x31));
  const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20),
                                  _mm256_permute2f128_ps(c8, d8, 0x31));
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44),
                                   _mm256_shuffle_ps(ab, cd, 0xee));
  const __m256 one = _mm256_add_ps(  // a c a c | b d b d
      _mm256_shuffle_ps(two, two, 0x88), _mm256_shuffle_ps(two, two, 0xdd));
  _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(one),
                                     _mm256_extractf128_ps(one, 1)));
}
inline float lane_max(Vec16 a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                 _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Exactly 2 * kBits bytes, the rest undefined.
template <int kBits>
inline __m128i load_fields(const std::uint8_t* p) {
  if constexpr (kBits == 2) return _mm_loadu_si32(p);
  if constexpr (kBits == 3)
    return _mm_insert_epi16(_mm_loadu_si32(p), p[4] | p[5] << 8, 2);
  if constexpr (kBits == 5)
    return _mm_insert_epi16(_mm_loadl_epi64((const __m128i*)p),
                            p[8] | p[9] << 8, 4);
  if constexpr (kBits == 6)
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i*)p),
                              _mm_loadu_si32(p + 8));
}

// Lanes 0-7 and 8-15 of the fields, each in its low bits with others above.
template <int kBits>
inline void spread(const std::uint8_t* p, __m256i& low, __m256i& high) {
  const auto* shift = (const __m256i*)kFields<kBits>.shift;
  if constexpr (kBits == 4) {  // eight fields are 32 bits
    low = _mm256_broadcastd_epi32(_mm_loadu_si32(p));
    high = _mm256_broadcastd_epi32(_mm_loadu_si32(p + 4));
    const __m256i nibble = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    low = _mm256_srlv_epi32(low, nibble);
    high = _mm256_srlv_epi32(high, nibble);
  } else {
    const auto* byte = (const __m256i*)kFields<kBits>.byte;
    const __m256i all = _mm256_broadcastsi128_si256(load_fields<kBits>(p));
    low = _mm256_srlv_epi32(_mm256_shuffle_epi8(all, _mm256_load_si256(byte)),
                            _mm256_load_si256(shift));
    high =
        _mm256_srlv_epi32(_mm256_shuffle_epi8(all, _mm256_load_si256(byte + 1)),
                          _mm256_load_si256(shift + 1));
  }
}

template <int kBits>
inline Vec16 unpack(const std::uint8_t* p) {
  __m256i low, high;
  if constexpr (kBits == 8) {
    low = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
    high = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)));
  } else {
    const __m256i mask = _mm256_set1_epi32((1 << kBits) - 1);
    spread<kBits>(p, low, high);
    low = _mm256_and_si256(low, mask);
    high = _mm256_and_si256(high, mask);
  }
  return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
}

template <int kBits>
class Dequantizer {
 public:
  Dequantizer() = default;
  Dequantizer(float scale, float bias)
      : scale_(_mm256_set1_ps(scale)), bias_(_mm256_set1_ps(bias)) {}
  Vec16 operator()(const std::uint8_t* p) const {
    return fma(unpack<kBits>(p), {scale_, scale_}, {bias_, bias_});
  }

 private:
  __m256 scale_, bias_;
};

template <int kBits>
class AnyOrderDequantizer : public Dequantizer<kBits> {
 public:
  using Dequantizer<kBits>::Dequantizer;
  static Vec16 to_order(const Vec16& v) { return v; }
  static Vec16 from_order(const Vec16& v) { return v; }
};

}  // namespace reprise::kernels::cpu::avx2
