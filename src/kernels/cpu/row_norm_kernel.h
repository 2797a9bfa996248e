// The norms of row_task.h. Included by row_kernel.h.
#pragma once

#include "kernels/cpu/row_access.h"
#include "kernels/cpu/vec16_activation.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
inline float sum_of_squares(const T* x, int dim) {
  Vec16 squares = zeros();
  for (int i = 0; i < dim; i += 16) {
    const Vec16 v = load_at(x, i, dim);
    squares = fma(v, v, squares);
  }
  return sum(squares);
}

// 1 / sqrt(mean of squares + eps)
template <typename T>
inline Vec16 inverse_rms(const T* x, int dim, float eps) {
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  return broadcast(1.0f / __builtin_sqrtf(mean + eps));
}

// f(x, out, first dimension, row) for every head of the rows.
template <typename T, typename F>
inline void for_each_head(const RowTask& task, int begin, int end, F f) {
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int d = 0; d < task.dim; d += task.head_dim) f(x + d, out + d, d, row);
  }
}

template <typename T>
void rms_norm_as(const RowTask& task, int begin, int end) {
  const int dim = task.head_dim;
  for_each_head<T>(task, begin, end, [&](const T* x, T* out, int, int) {
    const Vec16 inverse = inverse_rms(x, dim, task.eps);
    for (int i = 0; i < dim; i += 16)
      store_at(out, i, dim,
               mul(mul(load_at(x, i, dim), inverse),
                   load_any(task.b, task.b_type, i, dim)));
  });
}

template <typename T>
void unweighted_rms_norm_as(const RowTask& task, int begin, int end) {
  const int dim = task.head_dim;
  for_each_head<T>(task, begin, end, [&](const T* x, T* out, int, int) {
    const Vec16 inverse = inverse_rms(x, dim, task.eps);
    for (int i = 0; i < dim; i += 16)
      store_at(out, i, dim, mul(load_at(x, i, dim), inverse));
  });
}

template <typename T>
void gated_rms_norm_as(const RowTask& task, int begin, int end) {
  const int dim = task.head_dim;
  for_each_head<T>(task, begin, end, [&](const T* x, T* out, int d, int row) {
    const T* gate = row_of<T>(task.c, task.c_row_bytes, row) + d;
    const Vec16 inverse = inverse_rms(x, dim, task.eps);
    for (int i = 0; i < dim; i += 16) {
      const Vec16 normed = mul(mul(load_at(x, i, dim), inverse),
                               load_any(task.b, task.b_type, i, dim));
      store_at(out, i, dim, mul(normed, sigmoid(load_at(gate, i, dim))));
    }
  });
}

// x - mean, zeros past the end.
template <typename T>
inline Vec16 centred_at(const T* x, int i, int dim, Vec16 mean) {
  const Vec16 v = sub(load_at(x, i, dim), mean);
  if (dim - i >= 16) return v;
  float lanes[16];
  store(lanes, v);
  return load_first(lanes, dim - i);
}

template <typename T>
void layer_norm_as(const RowTask& task, int begin, int end) {
  const int dim = task.head_dim;
  const auto size = static_cast<float>(dim);
  for_each_head<T>(task, begin, end, [&](const T* x, T* out, int, int) {
    Vec16 totals = zeros(), squares = zeros();
    for (int i = 0; i < dim; i += 16) totals = add(totals, load_at(x, i, dim));
    const Vec16 mean = broadcast(sum(totals) / size);
    for (int i = 0; i < dim; i += 16) {
      const Vec16 v = centred_at(x, i, dim, mean);
      squares = fma(v, v, squares);
    }
    const Vec16 inverse =
        broadcast(1.0f / __builtin_sqrtf(sum(squares) / size + task.eps));
    for (int i = 0; i < dim; i += 16)
      store_at(out, i, dim,
               fma(mul(centred_at(x, i, dim, mean), inverse),
                   load_any(task.b, task.b_type, i, dim),
                   load_any(task.c, task.c_type, i, dim)));
  });
}

template <typename T>
void l2_norm_as(const RowTask& task, int begin, int end) {
  const int dim = task.head_dim;
  for_each_head<T>(task, begin, end, [&](const T* x, T* out, int, int) {
    const Vec16 inverse = broadcast(
        task.factor / __builtin_sqrtf(sum_of_squares(x, dim) + task.eps));
    for (int i = 0; i < dim; i += 16)
      store_at(out, i, dim, mul(load_at(x, i, dim), inverse));
  });
}

void rms_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { rms_norm_as<decltype(x)>(task, begin, end); });
}

void unweighted_rms_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) {
    unweighted_rms_norm_as<decltype(x)>(task, begin, end);
  });
}

void gated_rms_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task,
            [&](auto x) { gated_rms_norm_as<decltype(x)>(task, begin, end); });
}

void layer_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task,
            [&](auto x) { layer_norm_as<decltype(x)>(task, begin, end); });
}

void l2_norm_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { l2_norm_as<decltype(x)>(task, begin, end); });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
