// The kernels of row_task.h, compiled once for every instruction set by
// row_<set>.cpp.
#pragma once

#include "kernels/cpu/row_task.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

inline int least(int a, int b) {
  return a < b ? a : b;
}

// Up to 16 elements at p[i...] of a row of `dim`, zeros past its end.
template <typename T>
Vec16 load_at(const T* p, int i, int dim) {
  return dim - i >= 16 ? load(p + i) : load_first(p + i, dim - i);
}

template <typename T>
void store_at(T* p, int i, int dim, Vec16 v) {
  if (dim - i >= 16)
    store(p + i, v);
  else
    store_first(p + i, v, dim - i);
}

inline Vec16 load_any(const char* p, ElementType type, int i, int dim) {
  switch (type) {
    case ElementType::bfloat16:
      return load_at(reinterpret_cast<const BFloat16*>(p), i, dim);
    case ElementType::float16:
      return load_at(reinterpret_cast<const Float16*>(p), i, dim);
    case ElementType::float32:
      break;
  }
  return load_at(reinterpret_cast<const float*>(p), i, dim);
}

template <typename T>
const T* row_of(const char* data, std::int64_t row_bytes, int row) {
  return reinterpret_cast<const T*>(data + row * row_bytes);
}

template <typename T>
T* out_row(const RowTask& task, int row) {
  return reinterpret_cast<T*>(task.out) +
         static_cast<std::int64_t>(row) * task.dim;
}

template <typename T>
void rms_norm_as(const RowTask& task, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    T* out = out_row<T>(task, row);
    Vec16 squares = zeros();
    for (int i = 0; i < task.dim; i += 16) {
      const Vec16 v = load_at(x, i, task.dim);
      squares = fma(v, v, squares);
    }
    const float mean = sum(squares) / static_cast<float>(task.dim);
    const Vec16 inverse = broadcast(1.0f / __builtin_sqrtf(mean + task.eps));
    for (int i = 0; i < task.dim; i += 16)
      store_at(out, i, task.dim,
               mul(mul(load_at(x, i, task.dim), inverse),
                   load_any(task.b, task.b_type, i, task.dim)));
  }
}

template <typename T>
void swiglu_as(const RowTask& task, int begin, int end) {
  const Vec16 one = broadcast(1.0f);
  for (int row = begin; row < end; ++row) {
    const T* gate = row_of<T>(task.a, task.a_row_bytes, row);
    const T* up = row_of<T>(task.b, task.b_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int i = 0; i < task.dim; i += 16) {
      const Vec16 g = load_at(gate, i, task.dim);
      const Vec16 silu = div(g, add(one, exp(sub(zeros(), g))));
      store_at(out, i, task.dim, mul(silu, load_at(up, i, task.dim)));
    }
  }
}

template <typename T>
void add_as(const RowTask& task, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const T* a = row_of<T>(task.a, task.a_row_bytes, row);
    const T* b = row_of<T>(task.b, task.b_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int i = 0; i < task.dim; i += 16)
      store_at(out, i, task.dim,
               add(load_at(a, i, task.dim), load_at(b, i, task.dim)));
  }
}

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

// f with an element of task.type, to choose a template by.
template <typename F>
void with_type(const RowTask& task, F f) {
  switch (task.type) {
    case ElementType::float32:
      return f(float());
    case ElementType::bfloat16:
      return f(BFloat16());
    case ElementType::float16:
      return f(Float16());
  }
}

void rms_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { rms_norm_as<decltype(x)>(task, begin, end); });
}

void swiglu_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { swiglu_as<decltype(x)>(task, begin, end); });
}

void add_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { add_as<decltype(x)>(task, begin, end); });
}

void rope_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { rope_as<decltype(x)>(task, begin, end); });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
