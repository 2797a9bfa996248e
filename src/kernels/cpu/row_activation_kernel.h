// The operations of row_task.h that take element by element. Included by
// row_kernel.h.
#pragma once

#include "kernels/cpu/row_access.h"
#include "kernels/cpu/vec16_activation.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// out = f(a) with f on sixteen lanes.
template <typename F>
inline void for_each_element(const RowTask& task, int begin, int end, F f) {
  with_type(task, [&]<typename T>(T) {
    for (int row = begin; row < end; ++row) {
      const T* a = row_of<T>(task.a, task.a_row_bytes, row);
      T* out = out_row<T>(task, row);
      for (int i = 0; i < task.dim; i += 16)
        store_at(out, i, task.dim, f(load_at(a, i, task.dim)));
    }
  });
}

// out = f(a, b).
template <typename F>
inline void for_each_pair(const RowTask& task, int begin, int end, F f) {
  with_type(task, [&]<typename T>(T) {
    for (int row = begin; row < end; ++row) {
      const T* a = row_of<T>(task.a, task.a_row_bytes, row);
      const T* b = row_of<T>(task.b, task.b_row_bytes, row);
      T* out = out_row<T>(task, row);
      for (int i = 0; i < task.dim; i += 16)
        store_at(out, i, task.dim,
                 f(load_at(a, i, task.dim), load_at(b, i, task.dim)));
    }
  });
}

void swiglu_rows(const RowTask& task, int begin, int end) {
  for_each_pair(task, begin, end,
                [](Vec16 gate, Vec16 up) { return mul(silu(gate), up); });
}

void limited_swiglu_rows(const RowTask& task, int begin, int end) {
  const Vec16 most = broadcast(task.factor);
  const Vec16 least = broadcast(-task.factor);
  // In this order min and max hand on a NaN.
  for_each_pair(task, begin, end, [=](Vec16 gate, Vec16 up) {
    return mul(silu(min(most, gate)), max(least, min(most, up)));
  });
}

void geglu_rows(const RowTask& task, int begin, int end) {
  for_each_pair(task, begin, end,
                [](Vec16 gate, Vec16 up) { return mul(gelu(gate), up); });
}

void gate_rows(const RowTask& task, int begin, int end) {
  for_each_pair(task, begin, end,
                [](Vec16 x, Vec16 gate) { return mul(x, sigmoid(gate)); });
}

void add_rows(const RowTask& task, int begin, int end) {
  for_each_pair(task, begin, end, [](Vec16 a, Vec16 b) { return add(a, b); });
}

void sigmoid_rows(const RowTask& task, int begin, int end) {
  for_each_element(task, begin, end, [](Vec16 x) { return sigmoid(x); });
}

void scale_rows(const RowTask& task, int begin, int end) {
  const Vec16 factor = broadcast(task.factor);
  for_each_element(task, begin, end, [=](Vec16 x) { return mul(x, factor); });
}

void softcap_rows(const RowTask& task, int begin, int end) {
  const Vec16 cap = broadcast(task.factor);
  for_each_element(task, begin, end,
                   [=](Vec16 x) { return mul(cap, tanh(div(x, cap))); });
}

template <typename T>
void decay_as(const RowTask& task, int begin, int end) {
  const auto* log_rates = reinterpret_cast<const float*>(task.b);
  const Vec16 factor = broadcast(task.factor);
  for (int row = begin; row < end; ++row) {
    const T* a = row_of<T>(task.a, task.a_row_bytes, row);
    float* out = out_row<float>(task, row);
    for (int d = 0; d < task.dim; d += task.head_dim) {
      const Vec16 rate = exp(broadcast(log_rates[d / task.head_dim]));
      const int stop = d + task.head_dim;
      for (int i = d; i < stop; i += 16) {
        const Vec16 x =
            add(load_at(a, i, stop), load_any(task.c, task.c_type, i, stop));
        store_at(out, i, stop,
                 task.factor == 0.0f ? sub(zeros(), mul(rate, softplus(x)))
                                     : mul(factor, sigmoid(mul(rate, x))));
      }
    }
  }
}

void decay_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { decay_as<decltype(x)>(task, begin, end); });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
