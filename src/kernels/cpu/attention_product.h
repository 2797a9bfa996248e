// Products of a few rows with a tile, in registers. For files compiled for one
// instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Query rows and vectors of a block of products: its sums, a vector of the
// right side each and a broadcast fill the registers (32; 16, two to a Vec16).
#if REPRISE_ISA_NUMBER(REPRISE_ISA) == 3
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = 4;
#elif REPRISE_ISA_NUMBER(REPRISE_ISA) == 2
inline constexpr int kBlockRows = 3;
inline constexpr int kBlockVectors = 2;
#else
inline constexpr int kBlockRows = 2;
inline constexpr int kBlockVectors = 1;
#endif

// A block of products: c[r][16 v ...] (+)= sum over k of a[r][k] * b[k][...],
// R rows by C vectors, in registers. Each sum is one chain over ascending k.
template <int R, int C, bool kAccumulate>
inline __attribute__((always_inline)) void multiply_block(
    const float* a, int a_row, const float* b, std::int64_t b_row, int k_begin,
    int k_end, float* c, int c_row, const float* rescale) {
  Vec16 sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v)
      sum[r][v] = kAccumulate
                      ? mul(load(c + r * c_row + 16 * v), broadcast(rescale[r]))
                      : zeros();
  for (int k = k_begin; k < k_end; ++k) {
    Vec16 right[C];
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v) right[v] = load(b + k * b_row + 16 * v);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec16 left = broadcast(a[r * a_row + k]);
#pragma GCC unroll 8
      for (int v = 0; v < C; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v) store(c + r * c_row + 16 * v, sum[r][v]);
}

struct Product {
  const float* a;
  int a_row;
  const float* b;
  std::int64_t b_row;
  int k_begin, k_end;
  float* c;
  int c_row;
  const float* rescale;  // of each row of c, before anything is added to it
};

template <int R, bool kAccumulate>
void multiply_rows(const Product& p, int vectors) {
  int v = 0;
  for (; v + kBlockVectors <= vectors; v += kBlockVectors)
    multiply_block<R, kBlockVectors, kAccumulate>(
        p.a, p.a_row, p.b + 16 * v, p.b_row, p.k_begin, p.k_end, p.c + 16 * v,
        p.c_row, p.rescale);
  for (; v < vectors; ++v)
    multiply_block<R, 1, kAccumulate>(p.a, p.a_row, p.b + 16 * v, p.b_row,
                                      p.k_begin, p.k_end, p.c + 16 * v, p.c_row,
                                      p.rescale);
}

template <bool kAccumulate, int R = kBlockRows>
void multiply(const Product& p, int rows, int vectors) {
  if constexpr (R > 1)
    if (rows < R) return multiply<kAccumulate, R - 1>(p, rows, vectors);
  multiply_rows<R, kAccumulate>(p, vectors);
}

inline int least(int a, int b) {
  return a < b ? a : b;
}

inline int most(int a, int b) {
  return a > b ? a : b;
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
