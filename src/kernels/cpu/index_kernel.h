// The kernels of index_task.h, compiled once for every instruction set by
// index_<set>.cpp.
#pragma once

#include "base/limits.h"
#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/index_task.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/vec16_transpose.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Elements d, d + 1, ... of `dim`, zeros past the last.
template <typename T>
Vec16 load_dims(const T* p, int d, int dim) {
  return dim - d >= 16 ? load(p + d) : load_first(p + d, dim - d);
}

// Sixteen channels from d of one pool.
template <typename T>
Vec16 pool_channels(const PoolingTask& task, const char* const* keys,
                    const char* const* gates, int d) {
  const int dim = task.dim;
  const auto logit = [&](int i) {
    return add(load_dims(reinterpret_cast<const T*>(gates[i]), d, dim),
               load_dims(task.ape + i * dim, d, dim));
  };
  Vec16 top = logit(0);
  // max() hands on its second argument where one is not a number; exp() then
  // sees it in the difference.
  for (int i = 1; i < task.pool; ++i) top = max(logit(i), top);
  Vec16 all = zeros(), mixed = zeros();
  for (int i = 0; i < task.pool; ++i) {
    const Vec16 weight = exp(sub(logit(i), top));
    all = add(all, weight);
    mixed = fma(weight, load_dims(reinterpret_cast<const T*>(keys[i]), d, dim),
                mixed);
  }
  return div(mixed, all);
}

template <typename T>
void pool_rows_as(const PoolingTask& task, const char* const* keys,
                  const char* const* gates, char* out) {
  T* to = reinterpret_cast<T*>(out);
  for (int d = 0; d < task.dim; d += 16) {
    const Vec16 v = pool_channels<T>(task, keys, gates, d);
    if (task.dim - d >= 16)
      store(to + d, v);
    else
      store_first(to + d, v, task.dim - d);
  }
}

// Working memory: queries [heads][wide], keys of a tile [wide][tile], products
// [heads][tile].
template <typename T>
class PoolScores {
 public:
  PoolScores(const IndexTask& task, const std::int32_t* blocks, int row,
             float* scratch)
      : task_(task),
        blocks_(blocks),
        wide_((task.dim + 15) / 16 * 16),
        queries_(scratch),
        keys_(queries_ + task.heads * wide_),
        products_(keys_ + wide_ * kIndexTile),
        weights_(reinterpret_cast<const float*>(task.weights +
                                                row * task.weight_row_bytes)) {
    const T* q =
        reinterpret_cast<const T*>(task.queries + row * task.query_row_bytes);
    for (int h = 0; h < task.heads; ++h)
      for (int d = 0; d < task.dim; d += 16)
        store(queries_ + h * wide_ + d,
              mul(load_dims(q + h * task.dim, d, task.dim),
                  broadcast(task.scale)));
  }

  // Up to a tile of pools from `begin`.
  void score(int begin, int count, float* scores) {
    turn_keys(begin, count);
    const int vectors = (count + 15) / 16;
    for (int h = 0; h < task_.heads; h += kBlockRows)
      multiply<false>(
          {queries_ + h * wide_, wide_, keys_, kIndexTile, 0, task_.dim,
           products_ + h * kIndexTile, kIndexTile, nullptr},
          least(kBlockRows, task_.heads - h), vectors);
    for (int v = 0; v < vectors; ++v) {
      Vec16 sum = zeros();
      for (int h = 0; h < task_.heads; ++h)
        // In this order a product that is not a number stays one.
        sum = fma(broadcast(weights_[h]),
                  max(zeros(), load(products_ + h * kIndexTile + 16 * v)), sum);
      if (count - 16 * v >= 16)
        store(scores + 16 * v, sum);
      else
        store_first(scores + 16 * v, sum, count - 16 * v);
    }
  }

 private:
  const T* key(int p) const {
    const int rows = kBlockTokens / task_.pool;  // of a block
    const std::int64_t row =
        static_cast<std::int64_t>(blocks_[p / rows]) * rows + p % rows;
    return reinterpret_cast<const T*>(task_.pooled) + row * task_.dim;
  }

  void turn_keys(int begin, int count) {
    for (int p = 0; p < count; p += 16)
      for (int d = 0; d < task_.dim; d += 16) {
        Vec16 m[16];
        for (int i = 0; i < 16; ++i)
          m[i] = p + i < count ? load_dims(key(begin + p + i), d, task_.dim)
                               : zeros();
        transpose(m);
        for (int i = 0; i < 16; ++i)
          store(keys_ + (d + i) * kIndexTile + p, m[i]);
      }
  }

  const IndexTask& task_;
  const std::int32_t* const blocks_;
  const int wide_;
  float* const queries_;
  float* const keys_;
  float* const products_;
  const float* const weights_;
};

template <typename T>
void score_pools_as(const IndexTask& task, const std::int32_t* blocks, int row,
                    int begin, int end, float* scratch, float* scores) {
  PoolScores<T> run(task, blocks, row, scratch);
  for (int p = begin; p < end; p += kIndexTile)
    run.score(p, least(kIndexTile, end - p), scores + (p - begin));
}

void pool_rows(const PoolingTask& task, const char* const* keys,
               const char* const* gates, char* out) {
  switch (task.type) {
    case ElementType::float32:
      return pool_rows_as<float>(task, keys, gates, out);
    case ElementType::bfloat16:
      return pool_rows_as<BFloat16>(task, keys, gates, out);
    case ElementType::float16:
      return pool_rows_as<Float16>(task, keys, gates, out);
  }
}

void score_pools(const IndexTask& task, const std::int32_t* blocks, int row,
                 int begin, int end, float* scratch, float* scores) {
  switch (task.type) {
    case ElementType::float32:
      return score_pools_as<float>(task, blocks, row, begin, end, scratch,
                                   scores);
    case ElementType::bfloat16:
      return score_pools_as<BFloat16>(task, blocks, row, begin, end, scratch,
                                      scores);
    case ElementType::float16:
      return score_pools_as<Float16>(task, blocks, row, begin, end, scratch,
                                     scores);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
