// Vec16 in one AVX-512 register (F, BW, DQ, VL). See vec16.h.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/bit_fields.h"
#include "kernels/cpu/element.h"

namespace reprise::kernels::cpu::avx512 {

struct Vec16 {
  __m512 v;
};

inline __mmask16 first(int n) {
  return static_cast<__mmask16>((1u << n) - 1);
}

inline Vec16 broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
inline Vec16 zeros() {
  return {_mm512_setzero_ps()};
}

inline Vec16 widen_bfloat16(__m256i bits) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline __m256i narrow_bfloat16(Vec16 x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd),
      16);
  rounded =
      _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q),
                            _mm512_set1_epi32(0x7fc0));
  return _mm512_cvtepi32_epi16(rounded);
}
inline __m256i narrow_float16(Vec16 x) {
  return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline Vec16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline Vec16 load(const BFloat16* p) {
  return widen_bfloat16(_mm256_loadu_si256((const __m256i*)p));
}
inline Vec16 load(const Float16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))};
}
inline Vec16 load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first(n), p)};
}
inline Vec16 load_first(const BFloat16* p, int n) {
  return widen_bfloat16(_mm256_maskz_loadu_epi16(first(n), p));
}
inline Vec16 load_first(const Float16* p, int n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
}

inline void store(float* p, Vec16 x) {
  _mm512_storeu_ps(p, x.v);
}
inline void store(BFloat16* p, Vec16 x) {
  _mm256_storeu_si256((__m256i*)p, narrow_bfloat16(x));
}
inline void store(Float16* p, Vec16 x) {
  _mm256_storeu_si256((__m256i*)p, narrow_float16(x));
}
inline void store_first(float* p, Vec16 x, int n) {
  _mm512_mask_storeu_ps(p, first(n), x.v);
}
inline void store_first(BFloat16* p, Vec16 x, int n) {
  _mm256_mask_storeu_epi16(p, first(n), narrow_bfloat16(x));
}
inline void store_first(Float16* p, Vec16 x, int n) {
  _mm256_mask_storeu_epi16(p, first(n), narrow_float16(x));
}

inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec16 add(Vec16 a, Vec16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec16 sub(Vec16 a, Vec16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec16 mul(Vec16 a, Vec16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec16 div(Vec16 a, Vec16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec16 sqrt(Vec16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
inline Vec16 min(Vec16 a, Vec16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Vec16 max(Vec16 a, Vec16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec16 select_less(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
  return {
      _mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v)};
}
inline Vec16 round(Vec16 a) {
  return {
      _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec16 scale_by_power(Vec16 a, Vec16 n) {
  const __m512i exponent =
      _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {
      _mm512_mul_ps(a.v, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)))};
}

inline float sum(Vec16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v),
                                     _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                                 _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// The halves that are to be added are brought together from several vectors,
// so that one addition serves them all.
inline void sum4(Vec16 a, Vec16 b, Vec16 c, Vec16 d, float* out) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44),
                                  _mm512_shuffle_f32x4(a.v, b.v, 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c.v, d.v, 0x44),
                                  _mm512_shuffle_f32x4(c.v, d.v, 0xee));
  const __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),
                                    _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
  _mm_storeu_ps(out,
                _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, one)));
}
inline float lane_max(Vec16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v),
                                     _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                 _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// The field of each lane in its low bits, with others' bits above. Loads that
// broadcast cost nothing, shuffles are what limits: as few as possible.
template <int kBits>
inline __m512i spread(const std::uint8_t* p) {
  constexpr const FieldTable& kTable = kFields<kBits>;
  const __m512i shift = _mm512_load_si512(kTable.shift);
  __m512i lanes;
  if constexpr (kBits == 8) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
  } else if constexpr (kBits == 2) {  // all in 32 bits
    const __m512i twice = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                            20, 22, 24, 26, 28, 30);
    return _mm512_srlv_epi32(_mm512_broadcastd_epi32(_mm_loadu_si32(p)), twice);
  } else if constexpr (kBits == 3) {
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(first(2 * kBits), p));
    lanes = _mm512_shuffle_epi8(bytes, _mm512_load_si512(kTable.byte));
  } else {
    const __m512i low =
        _mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i*)p));
    const __m128i last = _mm_loadl_epi64((const __m128i*)(p + 2 * kBits - 8));
    const __m512i bytes =
        kBits == 4 ? low : _mm512_mask_broadcastq_epi64(low, 0xf0, last);
    lanes = _mm512_shuffle_epi8(bytes, _mm512_load_si512(kTable.byte_of_eight));
  }
  return _mm512_srlv_epi32(lanes, shift);
}

template <int kBits>
inline Vec16 unpack(const std::uint8_t* p) {
  return {_mm512_cvtepi32_ps(
      _mm512_and_si512(spread<kBits>(p), _mm512_set1_epi32((1 << kBits) - 1)))};
}

template <int kBits>
class Dequantizer {
 public:
  Dequantizer() = default;
  Dequantizer(float scale, float bias)
      : scale_{_mm512_set1_ps(scale)}, bias_{_mm512_set1_ps(bias)} {}
  Vec16 operator()(const std::uint8_t* p) const {
    return fma(unpack<kBits>(p), scale_, bias_);
  }

 private:
  Vec16 scale_, bias_;
};

// Up to 16 values: all of them in one register, looked up by the low four
// bits of an index; where a field has fewer, the table repeats.
template <int kBits>
  requires(kBits <= 4)
class Dequantizer<kBits> {
 public:
  Dequantizer() = default;
  Dequantizer(float scale, float bias) {
    const __m512i number = _mm512_and_si512(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32((1 << kBits) - 1));
    table_ = _mm512_fmadd_ps(_mm512_cvtepi32_ps(number), _mm512_set1_ps(scale),
                             _mm512_set1_ps(bias));
  }
  Vec16 operator()(const std::uint8_t* p) const {
    return {_mm512_permutexvar_ps(spread<kBits>(p), table_)};
  }

 protected:
  __m512 table_;
};

template <int kBits>
class AnyOrderDequantizer : public Dequantizer<kBits> {
 public:
  using Dequantizer<kBits>::Dequantizer;
  static Vec16 to_order(Vec16 v) { return v; }
  static Vec16 from_order(Vec16 v) { return v; }
};

// A rotation brings two fields at once to where the table is looked up: lane
// 2j gets field j, lane 2j+1 field 8+j.
template <>
class AnyOrderDequantizer<4> : public Dequantizer<4> {
 public:
  using Dequantizer<4>::Dequantizer;
  Vec16 operator()(const std::uint8_t* p) const {
    const __m512i turn = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i fields = _mm512_srlv_epi64(
        _mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i*)p)), turn);
    return {_mm512_permutexvar_ps(fields, table_)};
  }
  static Vec16 to_order(Vec16 v) {
    const __m512i from =
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    return {_mm512_permutexvar_ps(from, v.v)};
  }
  static Vec16 from_order(Vec16 v) {
    const __m512i from =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return {_mm512_permutexvar_ps(from, v.v)};
  }
};

}  // namespace reprise::kernels::cpu::avx512
