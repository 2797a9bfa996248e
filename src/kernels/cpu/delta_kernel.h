// The kernels of delta_task.h, compiled once for every instruction set by
// delta_<set>.cpp.
#pragma once

#include "kernels/cpu/delta_task.h"
#include "kernels/cpu/row_access.h"
#include "kernels/cpu/vec16_exp.h"
#include "kernels/cpu/weight_rows.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Vectors of value channels that share each broadcast key: as many chains of
// sums as hide the latency of an addition and fit into registers, and whose
// states stay in the first cache.
#if REPRISE_ISA_NUMBER(REPRISE_ISA) == 3
inline constexpr int kDeltaVectors = 2;
#else
inline constexpr int kDeltaVectors = 1;
#endif
inline constexpr int kDeltaWidth = 16 * kDeltaVectors;
static_assert(kDeltaValues % kDeltaWidth == 0);

// The keys, queries and e^decay of some tokens as float32.
struct DeltaKeys {
  float* q;
  float* k;
  float* decay;
  int stride;  // from one token to the next

  void read(const DeltaTask& task, int head, int row, int index) const {
    const int dim = task.key_dim;
    const auto widen_head = [&](const DeltaRows& rows, float* out) {
      with_elements(rows.data + row * rows.row_bytes, rows.type,
                    [&](auto* p) { widen(p, head * dim, dim, out); });
    };
    const int at = index * stride;
    widen_head(task.q, q + at);
    widen_head(task.k, k + at);
    widen_head(task.decay, decay + at);
    for (int i = 0; i < dim; i += 16)
      store(decay + at + i, exp(load(decay + at + i)));
  }
};

struct DeltaSums {
  Vec16 of[kDeltaVectors];
  void clear() {
    for (int n = 0; n < kDeltaVectors; ++n) of[n] = zeros();
  }
};

// One pass over a state [key_dim, kDeltaWidth]. kUpdate: adds k δᵀ of token
// `at` and sums with its q to `result`. kNext: then decays for token `next` and
// sums with its k to `expected`. Both in one pass, as what limits a pass is
// reading and writing the state.
template <bool kUpdate, bool kNext>
inline void delta_pass(const DeltaKeys& keys, int dim, int at, int next,
                       float* state, const DeltaSums& delta, DeltaSums& result,
                       DeltaSums& expected) {
  const float* k = keys.k + at * keys.stride;
  const float* q = keys.q + at * keys.stride;
  const float* next_k = keys.k + next * keys.stride;
  const float* decay = keys.decay + next * keys.stride;
  DeltaSums results, expectations;
  results.clear();
  expectations.clear();
  for (int i = 0; i < dim; ++i, state += kDeltaWidth)
    for (int n = 0; n < kDeltaVectors; ++n) {
      Vec16 s = load(state + 16 * n);
      if constexpr (kUpdate) {
        s = fma(broadcast(k[i]), delta.of[n], s);
        results.of[n] = fma(s, broadcast(q[i]), results.of[n]);
      }
      if constexpr (kNext) {
        s = mul(s, broadcast(decay[i]));
        expectations.of[n] = fma(s, broadcast(next_k[i]), expectations.of[n]);
      }
      store(state + 16 * n, s);
    }
  if constexpr (kUpdate) result = results;
  if constexpr (kNext) expected = expectations;
}

// The states of an item: blocks [key_dim, kDeltaWidth] one after the other,
// zeros past the last channel. They are read from and written to a slot key by
// key over all channels, as they lie there: memory likes neighbours.
class DeltaStates {
 public:
  DeltaStates(const DeltaTask& task, const DeltaItem& item, float* blocks)
      : task_(task), item_(item), blocks_(blocks) {}

  float* block(int channel) const {
    return blocks_ + std::int64_t{channel} * task_.key_dim;
  }

  void read() const {
    const float* from = in_slot(item_.span->slot_from);
    const int stop =
        (item_.values + kDeltaWidth - 1) / kDeltaWidth * kDeltaWidth;
    for (int i = 0; i < task_.key_dim; ++i)
      for (int v = 0; v < stop; v += 16)
        store(at(i, v), from == nullptr || v >= item_.values
                            ? zeros()
                            : load_at(row(from, i), v, item_.values));
  }

  void write() const {
    float* to = in_slot(item_.span->slot_to);
    if (to == nullptr) return;
    for (int i = 0; i < task_.key_dim; ++i)
      for (int v = 0; v < item_.values; v += 16)
        store_at(row(to, i), v, item_.values, load(at(i, v)));
  }

 private:
  // Channel v, a multiple of 16, of key i.
  float* at(int i, int v) const {
    return block(v / kDeltaWidth * kDeltaWidth) + i * kDeltaWidth +
           v % kDeltaWidth;
  }
  template <typename T>
  T* row(T* slot, int i) const {
    return slot + std::int64_t{i} * task_.value_dim;
  }
  // The item's first channel of its head's first key.
  float* in_slot(int slot) const {
    if (slot < 0) return nullptr;
    const std::int64_t head = std::int64_t{slot} * task_.heads + item_.head;
    return task_.pool + head * task_.key_dim * task_.value_dim + item_.value;
  }

  const DeltaTask& task_;
  const DeltaItem& item_;
  float* const blocks_;
};

// One block of value channels of an item.
class DeltaBlock {
 public:
  DeltaBlock(const DeltaTask& task, const DeltaItem& item, int begin,
             float* state)
      : task_(task),
        item_(item),
        values_(least(kDeltaWidth, item.values - begin)),
        channel_(item.head * task.value_dim + item.value + begin),
        state_(state) {}

  // Tokens [row, row + count) of the batch, prepared in `keys`.
  void run(const DeltaKeys& keys, int row, int count) const {
    DeltaSums delta, result, expected;
    delta.clear();
    const int dim = task_.key_dim;
    delta_pass<false, true>(keys, dim, 0, 0, state_, delta, result, expected);
    for (int t = 0; t < count; ++t) {
      read_delta(row + t, expected, delta);
      if (t + 1 < count)
        delta_pass<true, true>(keys, dim, t, t + 1, state_, delta, result,
                               expected);
      else
        delta_pass<true, false>(keys, dim, t, t, state_, delta, result,
                                expected);
      write_result(row + t, result);
    }
  }

 private:
  // The n-th vector of this block's channels at p, zeros past them.
  template <typename T>
  Vec16 part(const T* p, int n) const {
    return 16 * n < values_ ? load_at(p, 16 * n, values_) : zeros();
  }

  void read_delta(int row, const DeltaSums& expected, DeltaSums& delta) const {
    float beta[16];
    with_elements(task_.beta.data + row * task_.beta.row_bytes, task_.beta.type,
                  [&](auto* p) { widen(p, item_.head, 1, beta); });
    with_elements(
        task_.v.data + row * task_.v.row_bytes, task_.v.type, [&](auto* p) {
          for (int n = 0; n < kDeltaVectors; ++n)
            delta.of[n] = mul(broadcast(beta[0]),
                              sub(part(p + channel_, n), expected.of[n]));
        });
  }

  void write_result(int row, const DeltaSums& result) const {
    float values[kDeltaWidth];
    for (int n = 0; n < kDeltaVectors; ++n)
      store(values + 16 * n, result.of[n]);
    narrow(values, values_, task_.v.type, task_.out,
           std::int64_t{row} * task_.heads * task_.value_dim + channel_);
  }

  const DeltaTask& task_;
  const DeltaItem& item_;
  const int values_;
  const int channel_;  // of v and out
  float* const state_;
};

void gated_delta(const DeltaTask& task, const DeltaItem& item, float* scratch) {
  const int stride = (task.key_dim + 15) / 16 * 16;
  const int keys_floats = kDeltaTokens * stride;
  const DeltaKeys keys = {scratch, scratch + keys_floats,
                          scratch + 2 * keys_floats, stride};
  const DeltaStates states(task, item, scratch + 3 * keys_floats);
  states.read();
  const int first = item.span->first_row, rows = item.span->row_count;
  for (int t = 0; t < rows; t += kDeltaTokens) {
    const int count = least(kDeltaTokens, rows - t);
    for (int i = 0; i < count; ++i)
      keys.read(task, item.head, first + t + i, i);
    for (int v = 0; v < item.values; v += kDeltaWidth)
      DeltaBlock(task, item, v, states.block(v)).run(keys, first + t, count);
  }
  states.write();
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
