// The attention kernel, compiled once for every instruction set by
// attention_<set>.cpp. The arithmetic stands in attention_task.h.
#pragma once

#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/vec16_tanh.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// What the tiles of a chunk leave behind, for `rows` query rows: sums of
// values [rows][wide], sums of weights [rows][16], running maximum [rows].
struct State {
  float* values;
  float* sums;
  float* maximum;

  State(float* memory, int rows, int wide)
      : values(memory), sums(values + rows * wide), maximum(sums + rows * 16) {}
};

// Positions [begin, end) of a tile that a query row looks at.
struct Seen {
  int begin, end;
};

// An item with elements of type T. Its working memory, aligned to 64 bytes
// (a vector across two cache lines takes two loads): queries, two states, and
// a tile.
template <typename T>
class ItemRun {
 public:
  ItemRun(const AttentionTask& task, const AttentionItem& item, float* scratch)
      : task_(task),
        group_(task.heads / task.kv_heads),
        item_(item),
        rows_(item.tokens * group_),
        key_wide_(task.key_wide),
        value_wide_(task.value_wide),
        window_(task.window > 0 ? least(task.window, kNoWindow) : kNoWindow),
        chunks_(chunks_of(task, item)),
        queries_(scratch),
        states_(queries_ + rows_ * key_wide_),
        reader_(task, item, states_ + 2 * state_size()) {}

  ChunkRange chunks() const { return chunks_; }

  State state(const float* memory) const {
    return {const_cast<float*>(memory), rows_, value_wide_};
  }
  std::size_t state_size() const {
    return attention_state_size(task_, item_.tokens);
  }
  State total() const { return state(states_); }
  State next() const { return state(states_ + state_size()); }

  // Queries of this item, scaled, [rows][key_wide], zeros past key_dim. Row
  // t * group + g is token t and the g-th head of the group.
  void load_queries() {
    const int dim = task_.key_dim;
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t row = item_.first_row + r / group_;
      const T* from =
          reinterpret_cast<const T*>(task_.q + row * task_.q_row_bytes) +
          (item_.kv_head * group_ + r % group_) * dim;
      float* to = queries_ + r * key_wide_;
      const Vec16 scale = broadcast(task_.scale);
      for (int d = 0; d < dim; d += 16)
        store(to + d, mul(dim - d >= 16 ? load(from + d)
                                        : load_first(from + d, dim - d),
                          scale));
    }
  }

  void reset(const State& s) const {
    for (int r = 0; r < rows_; ++r) {
      s.maximum[r] = -__builtin_inff();
      store(s.sums + 16 * r, zeros());
      for (int d = 0; d < value_wide_; d += 16)
        store(s.values + r * value_wide_ + d, zeros());
    }
  }

  void run_chunk(int chunk, const State& s) {
    reset(s);
    const int last = item_.position + item_.tokens;
    const int begin = most(chunk * kAttentionChunk,
                           first_seen(0) / kAttentionTile * kAttentionTile);
    const int end = least((chunk + 1) * kAttentionChunk, last);
    for (int tile = begin; tile < end; tile += kAttentionTile) {
      reader_.read(tile, most(first_seen(0) - tile, 0),
                   least(kAttentionTile, end - tile));
      // Rows whose token stands in or behind this tile, and whose window
      // reaches back to it.
      const int first = most(tile - item_.position, 0) * group_;
      const int reach = tile + kAttentionTile + window_ - 1 - item_.position;
      const int stop = least(item_.tokens, most(reach, 0)) * group_;
      for (int r = first; r < stop; r += kBlockRows)
        attend_rows(tile, r, least(kBlockRows, stop - r), s);
    }
  }

  // Adds the state of the next chunk to that of all before it.
  void merge(const State& total, const State& next, int chunk) const {
    for (int r = 0; r < rows_; ++r) {
      // Nothing of it was seen, and its maximum is none.
      if (chunk * kAttentionChunk > position_of(r) ||
          (chunk + 1) * kAttentionChunk <= first_seen(r))
        continue;
      const float maximum = next.maximum[r] > total.maximum[r]
                                ? next.maximum[r]
                                : total.maximum[r];
      const Vec16 a = exp(broadcast(total.maximum[r] - maximum));
      const Vec16 b = exp(broadcast(next.maximum[r] - maximum));
      total.maximum[r] = maximum;
      join(total.sums + 16 * r, a, next.sums + 16 * r, b);
      for (int d = r * value_wide_; d < (r + 1) * value_wide_; d += 16)
        join(total.values + d, a, next.values + d, b);
    }
  }

  void write(const State& total) const {
    const int dim = task_.value_dim;
    for (int r = 0; r < rows_; ++r) {
      const std::int64_t row = item_.first_row + r / group_;
      const std::int64_t head = item_.kv_head * group_ + r % group_;
      T* to =
          reinterpret_cast<T*>(task_.out) + (row * task_.heads + head) * dim;
      Vec16 all = broadcast(sum(load(total.sums + 16 * r)));
      if (task_.sinks != nullptr)
        all = add(all, exp(broadcast(task_.sinks[head] - total.maximum[r])));
      for (int d = 0; d < dim; d += 16) {
        const Vec16 v = div(load(total.values + r * value_wide_ + d), all);
        if (dim - d >= 16)
          store(to + d, v);
        else
          store_first(to + d, v, dim - d);
      }
    }
  }

 private:
  // Behind every position, and far from overflow.
  static constexpr int kNoWindow = 1 << 30;

  int position_of(int row) const { return item_.position + row / group_; }
  int first_seen(int row) const {
    return most(position_of(row) - window_ + 1, 0);
  }

  static void join(float* to, Vec16 a, const float* next, Vec16 b) {
    store(to, fma(load(next), b, mul(load(to), a)));
  }

  // Up to kBlockRows query rows from `first` against the tile in the buffers.
  void attend_rows(int tile, int first, int count, const State& s) const {
    alignas(64) float scores[kBlockRows * kAttentionTile];
    alignas(64) float rescale[16];
    Seen seen[kBlockRows];  // both ends ascend with the rows
    for (int r = 0; r < count; ++r)
      seen[r] = {most(first_seen(first + r) - tile, 0),
                 least(position_of(first + r) - tile + 1, kAttentionTile)};
    const int begin = seen[0].begin / 16 * 16;
    multiply<false>({queries_ + first * key_wide_, key_wide_,
                     reader_.keys() + begin, kAttentionTile, 0, task_.key_dim,
                     scores + begin, kAttentionTile, nullptr},
                    count, (seen[count - 1].end + 15) / 16 - begin / 16);
    if (task_.softcap > 0.0f) cap(scores, seen, count);
    soften(scores, seen, count, s, first, rescale);
    add_values(scores, seen, count, s.values + first * value_wide_, rescale);
  }

  // out[r] = out[r] * rescale[r] + the values of the positions that row r
  // looks at, in ascending order. What only some of the rows look at is
  // skipped for the others, not multiplied by zero.
  void add_values(const float* scores, const Seen* seen, int count, float* out,
                  float* rescale) const {
    static constexpr float kOne = 1.0f;
    const auto of_one = [&](int r, int begin, int end, const float* factor) {
      if (begin < end)
        multiply<true>({scores + r * kAttentionTile, kAttentionTile,
                        reader_.values(), reader_.values_row(), begin, end,
                        out + r * value_wide_, value_wide_, factor},
                       1, value_wide_ / 16);
    };
    const int begin = seen[count - 1].begin, end = seen[0].end;
    if (begin >= end) {  // nothing that all look at
      for (int r = 0; r < count; ++r)
        of_one(r, seen[r].begin, seen[r].end, rescale + r);
      return;
    }
    for (int r = 0; r < count; ++r)
      if (seen[r].begin < begin) {
        of_one(r, seen[r].begin, begin, rescale + r);
        rescale[r] = 1.0f;
      }
    multiply<true>(
        {scores, kAttentionTile, reader_.values(), reader_.values_row(), begin,
         end, out, value_wide_, rescale},
        count, value_wide_ / 16);
    for (int r = 0; r < count; ++r) of_one(r, end, seen[r].end, &kOne);
  }

  void cap(float* scores, const Seen* seen, int count) const {
    const Vec16 c = broadcast(task_.softcap);
    for (int r = 0; r < count; ++r)
      for (int i = seen[r].begin / 16 * 16; i < seen[r].end; i += 16) {
        float* p = scores + r * kAttentionTile + i;
        store(p, mul(c, tanh(div(load(p), c))));
      }
  }

  // Turns the scores that each row looks at into weights and adds them to
  // the rows' sums. rescale[r]: what values of earlier tiles are to be
  // multiplied by. One loop after the other, because each is a chain of slow
  // steps for one row, and the rows' chains overlap.
  static void soften(float* scores, const Seen* seen, int count, const State& s,
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
  static float raise_maximum(float* scores, Seen seen, float* maximum) {
    const int begin = seen.begin / 16 * 16, end = (seen.end + 15) / 16 * 16;
    for (int i = begin; i < seen.begin; ++i) scores[i] = -__builtin_inff();
    for (int i = seen.end; i < end; ++i) scores[i] = -__builtin_inff();
    // max() hands on its second argument where the first is not a number.
    Vec16 top = broadcast(-__builtin_inff());
    for (int i = begin; i < end; i += 16) top = max(load(scores + i), top);
    const float tile_top = lane_max(top);
    const float before = *maximum;
    *maximum = tile_top > before ? tile_top : before;
    return before - *maximum;
  }

  static void weigh(float* scores, Seen seen, float maximum, float rescale,
                    float* sums) {
    const Vec16 top = broadcast(maximum);
    Vec16 all = mul(load(sums), broadcast(rescale));
    for (int i = seen.begin / 16 * 16; i < seen.end; i += 16) {
      store(scores + i, exp(sub(load(scores + i), top)));
      for (int j = i; j < seen.begin; ++j) scores[j] = 0.0f;
      for (int j = seen.end; j < i + 16; ++j) scores[j] = 0.0f;
      all = add(all, load(scores + i));
    }
    store(sums, all);
  }

  const AttentionTask& task_;
  const int group_;
  const AttentionItem& item_;
  const int rows_, key_wide_, value_wide_;
  const int window_;
  const ChunkRange chunks_;
  float* const queries_;  // [rows][key_wide]
  float* const states_;
  TileReader<T> reader_;
};

template <typename T>
void attend_as(const AttentionTask& task, const AttentionItem& item,
               float* scratch) {
  ItemRun<T> run(task, item, scratch);
  run.load_queries();
  run.reset(run.total());
  for (int chunk = run.chunks().first; chunk < run.chunks().end; ++chunk) {
    run.run_chunk(chunk, run.next());
    run.merge(run.total(), run.next(), chunk);
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
                    const float* states, float* scratch) {
  const ItemRun<T> run(task, item, scratch);
  run.reset(run.total());
  for (int chunk = run.chunks().first; chunk < run.chunks().end; ++chunk) {
    run.merge(run.total(), run.state(states), chunk);
    states += run.state_size();
  }
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
                 const float* states, float* scratch) {
  switch (task.type) {
    case ElementType::float32:
      return join_chunks_as<float>(task, item, states, scratch);
    case ElementType::bfloat16:
      return join_chunks_as<BFloat16>(task, item, states, scratch);
    case ElementType::float16:
      return join_chunks_as<Float16>(task, item, states, scratch);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
