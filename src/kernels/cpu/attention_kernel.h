// The attention kernel, compiled once for every instruction set by
// attention_<set>.cpp. The arithmetic stands in attention_task.h.
#pragma once

#include "base/limits.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/vec16_transpose.h"

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

// What the tiles of a chunk leave behind, for `rows` query rows: sums of
// values [rows][wide], sums of weights [rows][16], running maximum [rows].
struct State {
  float* values;
  float* sums;
  float* maximum;

  State(float* memory, int rows, int wide)
      : values(memory), sums(values + rows * wide), maximum(sums + rows * 16) {}
};

inline int least(int a, int b) {
  return a < b ? a : b;
}

// An item with elements of type T. Its working memory, aligned to 64 bytes
// (a vector across two cache lines takes two loads): queries, a tile of
// keys, a tile of values, and two states.
template <typename T>
class ItemRun {
 public:
  ItemRun(const AttentionTask& task, const AttentionItem& item, float* scratch)
      : task_(task),
        item_(item),
        group_(task.heads / task.kv_heads),
        rows_(item.tokens * group_),
        dim_(task.head_dim),
        wide_((dim_ + 15) / 16 * 16),
        end_(item.position + item.tokens),
        pool_row_(static_cast<std::int64_t>(task.kv_heads) * dim_),
        queries_(scratch),
        keys_(queries_ + rows_ * wide_),
        values_(keys_ + kAttentionTile * wide_),
        states_(values_ + kAttentionTile * wide_) {}

  int chunks() const { return (end_ + kAttentionChunk - 1) / kAttentionChunk; }

  State state(const float* memory) const {
    return {const_cast<float*>(memory), rows_, wide_};
  }
  std::size_t state_size() const {
    return attention_state_size(task_, item_.tokens);
  }
  State total() const { return state(states_); }
  State next() const { return state(states_ + state_size()); }

  // Queries of this item, scaled, [rows][wide], zeros past head_dim. Row
  // t * group + g is token t and the g-th head of the group.
  void load_queries() {
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t row = item_.first_row + r / group_;
      const T* from =
          reinterpret_cast<const T*>(task_.q + row * task_.q_row_bytes) +
          (item_.kv_head * group_ + r % group_) * dim_;
      float* to = queries_ + r * wide_;
      const Vec16 scale = broadcast(task_.scale);
      for (int d = 0; d < wide_; d += 16)
        store(to + d, mul(load_dims(from, d), scale));
    }
  }

  void reset(const State& s) const {
    for (int r = 0; r < rows_; ++r) {
      s.maximum[r] = -__builtin_inff();
      store(s.sums + 16 * r, zeros());
      for (int d = 0; d < wide_; d += 16)
        store(s.values + r * wide_ + d, zeros());
    }
  }

  void run_chunk(int chunk, const State& s) {
    reset(s);
    const int begin = chunk * kAttentionChunk;
    const int end = least(begin + kAttentionChunk, end_);
    for (int tile = begin; tile < end; tile += kAttentionTile) {
      // Never a row past this item's last position: what lies there may not
      // be a number.
      unpack(tile, least(kAttentionTile, end - tile));
      // The first row whose token stands in or behind this tile.
      const int first =
          tile > item_.position ? (tile - item_.position) * group_ : 0;
      for (int r = first; r < rows_; r += kBlockRows)
        attend_rows(tile, r, least(kBlockRows, rows_ - r), s);
    }
  }

  // Adds the state of the next chunk to that of all before it.
  void merge(const State& total, const State& next) const {
    for (int r = 0; r < rows_; ++r) {
      const float maximum = next.maximum[r] > total.maximum[r]
                                ? next.maximum[r]
                                : total.maximum[r];
      const Vec16 a = exp(broadcast(total.maximum[r] - maximum));
      const Vec16 b = exp(broadcast(next.maximum[r] - maximum));
      total.maximum[r] = maximum;
      join(total.sums + 16 * r, a, next.sums + 16 * r, b);
      for (int d = r * wide_; d < (r + 1) * wide_; d += 16)
        join(total.values + d, a, next.values + d, b);
    }
  }

  void write(const State& total) const {
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t row = item_.first_row + r / group_;
      const std::int64_t head = item_.kv_head * group_ + r % group_;
      T* to =
          reinterpret_cast<T*>(task_.out) + (row * task_.heads + head) * dim_;
      const Vec16 all = broadcast(sum(load(total.sums + 16 * r)));
      for (int d = 0; d < dim_; d += 16) {
        const Vec16 v = div(load(total.values + r * wide_ + d), all);
        if (dim_ - d >= 16)
          store(to + d, v);
        else
          store_first(to + d, v, dim_ - d);
      }
    }
  }

 private:
  // Dimensions d, d + 1, ... of a head, zeros past its last.
  Vec16 load_dims(const T* head, int d) const {
    return dim_ - d >= 16 ? load(head + d) : load_first(head + d, dim_ - d);
  }

  static void join(float* to, Vec16 a, const float* next, Vec16 b) {
    store(to, fma(load(next), b, mul(load(to), a)));
  }

  // Keys of a tile as [head_dim][64], zeros from `valid` on; values as rows.
  void unpack(int tile, int valid) {
    const std::int64_t row =
        static_cast<std::int64_t>(item_.blocks[tile / kBlockTokens]) *
            kBlockTokens +
        tile % kBlockTokens;
    const std::int64_t at = row * pool_row_ + item_.kv_head * dim_;
    const T* keys = reinterpret_cast<const T*>(task_.keys) + at;
    const T* values = reinterpret_cast<const T*>(task_.values) + at;
    for (int p = 0; p < valid; p += 16)
      for (int d = 0; d < wide_; d += 16)
        turn_keys(keys + p * pool_row_, d, valid - p,
                  keys_ + d * kAttentionTile + p);
    if constexpr (sizeof(T) == sizeof(float)) {
      if (dim_ == wide_) {  // good as they are
        tile_values_ = values;
        tile_values_row_ = pool_row_;
        return;
      }
    }
    for (int p = 0; p < valid; ++p)
      for (int d = 0; d < wide_; d += 16)
        store(values_ + p * wide_ + d, load_dims(values + p * pool_row_, d));
    tile_values_ = values_;
    tile_values_row_ = wide_;
  }

  // Sixteen dimensions from d of the first `valid` of sixteen positions.
  void turn_keys(const T* keys, int d, int valid, float* to) const {
    Vec16 m[16];
    if (valid >= 16 && dim_ - d >= 16)
      for (int p = 0; p < 16; ++p) m[p] = load(keys + p * pool_row_ + d);
    else
      for (int p = 0; p < 16; ++p)
        m[p] = p < valid ? load_dims(keys + p * pool_row_, d) : zeros();
    transpose(m);
    for (int i = 0; i < 16; ++i) store(to + i * kAttentionTile, m[i]);
  }

  // Up to kBlockRows query rows from `first` against the tile in the buffers.
  void attend_rows(int tile, int first, int count, const State& s) const {
    alignas(64) float scores[kBlockRows * kAttentionTile];
    alignas(64) float rescale[16];
    int seen[kBlockRows];  // positions of this tile that a row may look at
    for (int r = 0; r < count; ++r) {
      const int position = item_.position + (first + r) / group_;
      seen[r] = least(kAttentionTile, position - tile + 1);
    }
    const int fewest = seen[0];  // rows stand in ascending order
    const int most = seen[count - 1];
    multiply<false>({queries_ + first * wide_, wide_, keys_, kAttentionTile, 0,
                     dim_, scores, kAttentionTile, nullptr},
                    count, (most + 15) / 16);
    soften(scores, seen, count, s, first, rescale);

    float* out = s.values + first * wide_;
    multiply<true>({scores, kAttentionTile, tile_values_, tile_values_row_, 0,
                    fewest, out, wide_, rescale},
                   count, wide_ / 16);
    // Positions that only some of the rows may look at are skipped for the
    // others, not multiplied by zero.
    static constexpr float kOne = 1.0f;
    for (int r = 0; r < count; ++r)
      if (seen[r] > fewest)
        multiply<true>(
            {scores + r * kAttentionTile, kAttentionTile, tile_values_,
             tile_values_row_, fewest, seen[r], out + r * wide_, wide_, &kOne},
            1, wide_ / 16);
  }

  // Turns the first seen[r] scores of each row into weights and adds them to
  // the rows' sums. rescale[r]: what values of earlier tiles are to be
  // multiplied by. One loop after the other, because each is a chain of slow
  // steps for one row, and the rows' chains overlap.
  static void soften(float* scores, const int* seen, int count, const State& s,
                     int first, float* rescale) {
    alignas(64) float change[16] = {};
    for (int r = 0; r < count; ++r)
      change[r] = raise_maximum(scores + r * kAttentionTile, seen[r],
                                s.maximum + first + r);
    store(rescale, exp(load(change)));
    for (int r = 0; r < count; ++r)
      weigh(scores + r * kAttentionTile, seen[r], s.maximum[first + r],
            rescale[r], s.sums + 16 * (first + r));
  }

  // Returns the old maximum minus the new one.
  static float raise_maximum(float* scores, int seen, float* maximum) {
    const int vectors = (seen + 15) / 16;
    for (int i = seen; i < 16 * vectors; ++i) scores[i] = -__builtin_inff();
    // max() hands on its second argument where the first is not a number.
    Vec16 top = broadcast(-__builtin_inff());
    for (int v = 0; v < vectors; ++v) top = max(load(scores + 16 * v), top);
    const float tile_top = lane_max(top);
    const float before = *maximum;
    *maximum = tile_top > before ? tile_top : before;
    return before - *maximum;
  }

  static void weigh(float* scores, int seen, float maximum, float rescale,
                    float* sums) {
    const Vec16 top = broadcast(maximum);
    Vec16 all = mul(load(sums), broadcast(rescale));
    int i = 0;
    for (; i + 16 <= seen; i += 16) {
      const Vec16 weight = exp(sub(load(scores + i), top));
      store(scores + i, weight);
      all = add(all, weight);
    }
    if (i < seen) {
      store(scores + i, exp(sub(load(scores + i), top)));
      all = add(all, load_first(scores + i, seen - i));
    }
    store(sums, all);
  }

  const AttentionTask& task_;
  const AttentionItem& item_;
  const int group_, rows_, dim_, wide_;  // wide_: dim_ in whole vectors
  const int end_;                        // positions ever read
  const std::int64_t pool_row_;          // elements
  float* const queries_;                 // [rows][wide]
  float* const keys_;                    // [wide][tile]
  float* const values_;                  // [tile][wide]
  float* const states_;
  const float* tile_values_ = nullptr;
  std::int64_t tile_values_row_ = 0;
};

template <typename T>
void attend_as(const AttentionTask& task, const AttentionItem& item,
               float* scratch) {
  ItemRun<T> run(task, item, scratch);
  run.load_queries();
  run.reset(run.total());
  for (int chunk = 0; chunk < run.chunks(); ++chunk) {
    run.run_chunk(chunk, run.next());
    run.merge(run.total(), run.next());
  }
  run.write(run.total());
}

template <typename T>
void attend_chunk_as(const AttentionTask& task, const AttentionItem& item,
                     int chunk, float* scratch, float* state) {
  ItemRun<T> run(task, item, scratch);
  run.load_queries();
  run.run_chunk(chunk, run.state(state));
}

template <typename T>
void join_chunks_as(const AttentionTask& task, const AttentionItem& item,
                    const float* states, int chunks, float* scratch) {
  const ItemRun<T> run(task, item, scratch);
  run.reset(run.total());
  for (int chunk = 0; chunk < chunks; ++chunk)
    run.merge(run.total(), run.state(states + chunk * run.state_size()));
  run.write(run.total());
}

void attend(const AttentionTask& task, const AttentionItem& item,
            float* scratch) {
  switch (task.type) {
    case ElementType::float32:
      return attend_as<float>(task, item, scratch);
    case ElementType::bfloat16:
      return attend_as<BFloat16>(task, item, scratch);
    case ElementType::float16:
      return attend_as<Float16>(task, item, scratch);
  }
}

void attend_chunk(const AttentionTask& task, const AttentionItem& item,
                  int chunk, float* scratch, float* state) {
  switch (task.type) {
    case ElementType::float32:
      return attend_chunk_as<float>(task, item, chunk, scratch, state);
    case ElementType::bfloat16:
      return attend_chunk_as<BFloat16>(task, item, chunk, scratch, state);
    case ElementType::float16:
      return attend_chunk_as<Float16>(task, item, chunk, scratch, state);
  }
}

void join_chunks(const AttentionTask& task, const AttentionItem& item,
                 const float* states, int chunks, float* scratch) {
  switch (task.type) {
    case ElementType::float32:
      return join_chunks_as<float>(task, item, states, chunks, scratch);
    case ElementType::bfloat16:
      return join_chunks_as<BFloat16>(task, item, states, chunks, scratch);
    case ElementType::float16:
      return join_chunks_as<Float16>(task, item, states, chunks, scratch);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
