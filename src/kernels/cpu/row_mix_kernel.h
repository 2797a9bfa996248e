// The sums over experts and streams of row_task.h. Included by row_kernel.h.
#pragma once

#include "kernels/cpu/row_access.h"
#include "kernels/cpu/row_norm_kernel.h"
#include "kernels/cpu/vec16_activation.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
void expert_sum_as(const RowTask& task, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* weights = row_of<float>(task.b, task.b_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int i = 0; i < task.dim; i += 16) {
      Vec16 total = zeros();
      for (int j = 0; j < task.terms; ++j) {
        const T* y = row_of<T>(task.a, task.a_row_bytes, row * task.terms + j);
        total = fma(broadcast(weights[j]), load_at(y, i, task.dim), total);
      }
      store_at(out, i, task.dim, total);
    }
  }
}

// Of the rows of a square matrix, each through (its sum + eps); or, turned
// round, of its columns.
inline void balance(float* m, int size, bool columns, float eps) {
  const int along = columns ? size : 1, across = columns ? 1 : size;
  for (int i = 0; i < size; ++i) {
    float* line = m + i * across;
    float total = 0.0f;
    for (int j = 0; j < size; ++j) total += line[j * along];
    total += eps;
    for (int j = 0; j < size; ++j) line[j * along] /= total;
  }
}

// A doubly stochastic matrix, nearly, from logits in place (Sinkhorn and
// Knopp 1967). `padded` floats from m on may be overwritten.
inline void sinkhorn(const RowTask& task, float* m, int padded) {
  const int size = task.terms;
  for (int i = 0; i < size; ++i) {
    float* line = m + i * size;
    float most = line[0];
    for (int j = 1; j < size; ++j) most = line[j] > most ? line[j] : most;
    for (int j = 0; j < size; ++j) line[j] -= most;
  }
  for (int i = 0; i < padded; i += 16) store(m + i, exp(load(m + i)));
  balance(m, size, false, 0.0f);
  for (int i = 0; i < size * size; ++i) m[i] += task.mix_eps;
  balance(m, size, true, task.mix_eps);
  for (int i = 1; i < task.iterations; ++i) {
    balance(m, size, false, task.mix_eps);
    balance(m, size, true, task.mix_eps);
  }
}

template <typename T>
void hyper_mix_as(const RowTask& task, int begin, int end) {
  const int size = task.terms, streams = size * task.head_dim;
  constexpr int kMost = kHyperStreams * kHyperStreams;
  const auto* base = reinterpret_cast<const float*>(task.c);
  const auto* scale = reinterpret_cast<const float*>(task.d);
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    const float mean = sum_of_squares(x, streams) / static_cast<float>(streams);
    const float inverse = 1.0f / __builtin_sqrtf(mean + task.eps);
    const float* product = row_of<float>(task.b, task.b_row_bytes, row);
    const auto logit = [&](int i, int part) {
      return product[i] * inverse * scale[part] + base[i];
    };
    float* out = out_row<float>(task, row);
    float gates[2 * kHyperStreams] = {}, mix[kMost] = {};
    for (int i = 0; i < size; ++i) {
      gates[i] = logit(i, 0);
      gates[size + i] = logit(size + i, 1);
    }
    for (int i = 0; i < size * size; ++i) mix[i] = logit(2 * size + i, 2);
    store(gates, sigmoid(load(gates)));
    sinkhorn(task, mix, kMost);
    for (int i = 0; i < size; ++i) {
      out[i] = gates[i] + task.mix_eps;
      out[size + i] = 2.0f * gates[size + i];
    }
    for (int i = 0; i < size * size; ++i) out[2 * size + i] = mix[i];
  }
}

template <typename T>
void hyper_in_as(const RowTask& task, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    const float* pre = row_of<float>(task.b, task.b_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int i = 0; i < task.dim; i += 16) {
      Vec16 total = zeros();
      for (int j = 0; j < task.terms; ++j)
        total = fma(broadcast(pre[j]), load_at(x + j * task.dim, i, task.dim),
                    total);
      store_at(out, i, task.dim, total);
    }
  }
}

template <typename T>
void hyper_out_as(const RowTask& task, int begin, int end) {
  const int size = task.terms, dim = task.head_dim;
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    const T* y = row_of<T>(task.b, task.b_row_bytes, row);
    const float* post = row_of<float>(task.c, task.c_row_bytes, row) + size;
    const float* mix = post + size;
    T* out = out_row<T>(task, row);
    for (int i = 0; i < dim; i += 16) {
      const Vec16 added = load_at(y, i, dim);
      for (int to = 0; to < size; ++to) {
        Vec16 total = mul(broadcast(post[to]), added);
        for (int j = 0; j < size; ++j)
          total = fma(broadcast(mix[j * size + to]),
                      load_at(x + j * dim, i, dim), total);
        store_at(out + to * dim, i, dim, total);
      }
    }
  }
}

template <typename T>
void hyper_mean_as(const RowTask& task, int begin, int end) {
  const Vec16 count = broadcast(static_cast<float>(task.terms));
  for (int row = begin; row < end; ++row) {
    const T* x = row_of<T>(task.a, task.a_row_bytes, row);
    T* out = out_row<T>(task, row);
    for (int i = 0; i < task.dim; i += 16) {
      Vec16 total = load_at(x, i, task.dim);
      for (int j = 1; j < task.terms; ++j)
        total = add(total, load_at(x + j * task.dim, i, task.dim));
      store_at(out, i, task.dim, div(total, count));
    }
  }
}

void expert_sum_rows(const RowTask& task, int begin, int end) {
  with_type(task,
            [&](auto x) { expert_sum_as<decltype(x)>(task, begin, end); });
}

void hyper_mix_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { hyper_mix_as<decltype(x)>(task, begin, end); });
}

void hyper_in_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { hyper_in_as<decltype(x)>(task, begin, end); });
}

void hyper_out_rows(const RowTask& task, int begin, int end) {
  with_type(task, [&](auto x) { hyper_out_as<decltype(x)>(task, begin, end); });
}

void hyper_mean_rows(const RowTask& task, int begin, int end) {
  with_type(task,
            [&](auto x) { hyper_mean_as<decltype(x)>(task, begin, end); });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
