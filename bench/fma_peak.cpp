#include "fma_peak.h"

#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprise::bench {
namespace {

// Enough sums at once to hide the latency of one: 4 cycles, two a cycle.
constexpr int kSums = 12;

// Keeps the value, so that the loop is not optimized away.
template <typename T>
void keep(T& value) {
  asm volatile("" : "+x"(value));
}

double generic_peak(int loops) {
  float sums[kSums] = {};
  const float a = 0.5f, b = 0.25f;
  for (int i = 0; i < loops; ++i)
    for (float& sum : sums) sum = std::fma(a, b, sum);
  volatile float sink = 0;
  for (float sum : sums) sink = sink + sum;
  return 2.0 * kSums * loops;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double avx2_peak(int loops) {
  __m256 sums[kSums];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(0.5f);
  for (int i = 0; i < loops; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(a, a, sum);
    keep(a);
  }
  for (__m256& sum : sums) keep(sum);
  return 2.0 * 8 * kSums * loops;
}

__attribute__((target("avx512f"))) double avx512_peak(int loops) {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(0.5f);
  for (int i = 0; i < loops; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(a, a, sum);
    asm volatile("" : "+v"(a));
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  return 2.0 * 16 * kSums * loops;
}
#endif

}  // namespace

double fma_peak(kernels::cpu::Isa isa, int loops) {
#if defined(__x86_64__)
  if (isa == kernels::cpu::Isa::avx512) return avx512_peak(loops);
  if (isa == kernels::cpu::Isa::avx2) return avx2_peak(loops);
#endif
  return generic_peak(loops);
}

}  // namespace reprise::bench
