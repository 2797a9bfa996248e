// Sixteen vectors as a 16 x 16 matrix, turned round in place: lane j of
// vector i becomes lane i of vector j.
#pragma once

#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

#if REPRISE_ISA_NUMBER(REPRISE_ISA) == 3

// Four rounds, each of which exchanges between vectors what differs in one
// bit of the lane number; single lanes first, then pairs, then quarters.
inline void transpose(Vec16 (&m)[16]) {
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(m[i].v, m[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(m[i].v, m[i + 1].v);
  }
  // b[4 i + j]: in each quarter q, lane 4 q + j of m[4 i] ... m[4 i + 3].
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    const __m512d a0 = _mm512_castps_pd(a[i]);
    const __m512d a1 = _mm512_castps_pd(a[i + 1]);
    const __m512d a2 = _mm512_castps_pd(a[i + 2]);
    const __m512d a3 = _mm512_castps_pd(a[i + 3]);
    b[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a0, a2));
    b[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a0, a2));
    b[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(a1, a3));
    b[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(a1, a3));
  }
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    const __m512 low01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x88);
    const __m512 low23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x88);
    const __m512 high01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xdd);
    const __m512 high23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xdd);
    m[j].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    m[8 + j].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    m[4 + j].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    m[12 + j].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

#elif REPRISE_ISA_NUMBER(REPRISE_ISA) == 2

// An 8 x 8 matrix in registers.
inline void transpose8(__m256 (&m)[8]) {
  __m256 a[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    const __m256 low01 = _mm256_unpacklo_ps(m[i], m[i + 1]);
    const __m256 high01 = _mm256_unpackhi_ps(m[i], m[i + 1]);
    const __m256 low23 = _mm256_unpacklo_ps(m[i + 2], m[i + 3]);
    const __m256 high23 = _mm256_unpackhi_ps(m[i + 2], m[i + 3]);
    a[i] = _mm256_shuffle_ps(low01, low23, 0x44);
    a[i + 1] = _mm256_shuffle_ps(low01, low23, 0xee);
    a[i + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
    a[i + 3] = _mm256_shuffle_ps(high01, high23, 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    m[i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x20);
    m[4 + i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x31);
  }
}

// Quarters of 8 x 8, turned round one by one; the two off the diagonal also
// change places.
inline void transpose(Vec16 (&m)[16]) {
  __m256 quarter[4][8];
  for (int i = 0; i < 8; ++i) {
    quarter[0][i] = m[i].low;
    quarter[1][i] = m[i].high;
    quarter[2][i] = m[8 + i].low;
    quarter[3][i] = m[8 + i].high;
  }
  for (auto& q : quarter) transpose8(q);
  for (int i = 0; i < 8; ++i) {
    m[i].low = quarter[0][i];
    m[i].high = quarter[2][i];
    m[8 + i].low = quarter[1][i];
    m[8 + i].high = quarter[3][i];
  }
}

#else

inline void transpose(Vec16 (&m)[16]) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < i; ++j) {
      const float kept = m[i].lane[j];
      m[i].lane[j] = m[j].lane[i];
      m[j].lane[i] = kept;
    }
}

#endif

}  // namespace reprise::kernels::cpu::REPRISE_ISA
