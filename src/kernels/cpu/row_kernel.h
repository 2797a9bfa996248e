// The kernels of row_task.h, compiled once for every instruction set by
// row_<set>.cpp: rope here, the others by kind.
#pragma once

#include "kernels/cpu/row_access.h"
#include "kernels/cpu/row_activation_kernel.h"
#include "kernels/cpu/row_mix_kernel.h"
#include "kernels/cpu/row_norm_kernel.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Pairs (i, i + half) of one head.
template <typename T>
void turn_halves(const T* x, T* out, const float* cos, const float* sin,
                 int half) {
  for (int i = 0; i < half; i += 16) {
    const Vec16 c = load_at(cos, i, half);
    const Vec16 s = load_at(sin, i, half);
    const Vec16 first = load_at(x, i, half);
    const Vec16 second = load_at(x + half, i, half);
    store_at(out, i, half, sub(mul(first, c), mul(second, s)));
    store_at(out + half, i, half, add(mul(second, c), mul(first, s)));
  }
}

// Pairs (2 i, 2 i + 1) of one head, eight at a time.
template <typename T>
void turn_neighbours(const T* x, T* out, const float* cos, const float* sin,
                     int half) {
  for (int i = 0; i < half; i += 8) {
    float pairs[16];
    store(pairs, load_at(x, 2 * i, 2 * half));
    for (int j = 0; j < least(8, half - i); ++j) {
      const float first = pairs[2 * j], second = pairs[2 * j + 1];
      const float c = cos[i + j], s = sin[i + j];
      pairs[2 * j] = first * c - second * s;
      pairs[2 * j + 1] = second * c + first * s;
    }
    store_at(out, 2 * i, 2 * half, load(pairs));
  }
}

template <typename T>
void rope_as(const RowTask& task, int begin, int end) {
  const int half = task.rotary / 2;
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    T* out = out_row<T>(task, row);
    const float* cos = row_of<float>(task.b, task.b_row_bytes, row);
    const float* sin = row_of<float>(task.c, task.c_row_bytes, row);
    for (int d = 0; d < task.dim; d += task.head_dim) {
      if (task.interleaved)
        turn_neighbours(x + d, out + d, cos, sin, half);
      else
        turn_halves(x + d, out + d, cos, sin, half);
      __builtin_memcpy(out + d + task.rotary, x + d + task.rotary,
                       (task.head_dim - task.rotary) * sizeof(T));
    }
  }
}

void rope_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { rope_as<decltype(x)>(task, begin, end); });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
