// A tile of keys and values, brought from the pools into the order in which
// attention multiplies them. For files compiled for one instruction set.
#pragma once

#include "base/limits.h"
#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/row_codec.h"
#include "kernels/cpu/vec16_transpose.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Plain rows have elements of type T. Working memory, aligned to 64 bytes:
// keys, values, and rows of keys that are dequantized on their own.
template <typename T>
class TileReader {
 public:
  TileReader(const AttentionTask& task, const AttentionItem& item,
             float* scratch)
      : task_(task),
        item_(item),
        keys_(scratch),
        values_(keys_ + (task.key_wide + 16) * kAttentionTile),
        loose_(values_ + kAttentionTile * task.value_wide) {}

  // Reads positions [begin, end) of the tile at `tile`, and no other: what
  // lies elsewhere may not be a number.
  void read(int tile, int begin, int end) {
    for (int p = begin; p < end; ++p) find(tile, p);
    const bool expanded = read_values(begin, end);
    int dim = 0;
    for (int i = 0; i < task_.key_parts; ++i) {
      read_keys(task_.keys[i], expanded && i == 0 && task_.values_are_keys,
                begin, end, keys_ + dim * kAttentionTile);
      dim += task_.keys[i].dim;
    }
  }

  // [key_dim][kAttentionTile], zeros around what was read, up to whole vectors
  // of positions.
  const float* keys() const { return keys_; }
  // Rows of whole vectors, from position 0 of the tile on.
  const float* values() const { return tile_values_; }
  std::int64_t values_row() const { return tile_values_row_; }

 private:
  void find(int tile, int p) {
    const int at =
        item_.positions == nullptr ? tile + p : item_.positions[tile + p];
    position_[p] = at;
    row_[p] = static_cast<std::int64_t>(item_.blocks[at / kBlockTokens]) *
                  kBlockTokens +
              at % kBlockTokens;
  }

  const T* plain_row(const StatePart& part, int p) const {
    return reinterpret_cast<const T*>(part.plain +
                                      row_[p] * part.plain_row_bytes) +
           item_.kv_head * part.dim;
  }

  // Elements d, d + 1, ... of `dim`, zeros past the last.
  template <typename E>
  static Vec16 load_dims(const E* head, int d, int dim) {
    return dim - d >= 16 ? load(head + d) : load_first(head + d, dim - d);
  }

  // Row p of a part as floats, filled up with zeros to whole vectors.
  void expand(const StatePart& part, int p, float* out) const {
    if (position_[p] >= part.quantized_from)
      return dequantize_elements<T>(
          part.format, part.quantized + row_[p] * part.format.row_bytes,
          item_.kv_head * part.dim, part.dim, out);
    const T* row = plain_row(part, p);
    for (int d = 0; d < part.dim; d += 16)
      store(out + d, load_dims(row, d, part.dim));
  }

  // Whether the values now lie in values_.
  bool read_values(int begin, int end) {
    const StatePart& part = task_.values;
    if constexpr (sizeof(T) == sizeof(float)) {
      if (item_.positions == nullptr && part.dim == task_.value_wide &&
          position_[end - 1] < part.quantized_from) {  // good as they are
        tile_values_row_ = part.plain_row_bytes / std::int64_t{sizeof(T)};
        tile_values_ = plain_row(part, begin) - begin * tile_values_row_;
        return false;
      }
    }
    tile_values_ = values_;
    tile_values_row_ = task_.value_wide;
    for (int p = begin; p < end; ++p)
      expand(part, p, values_ + p * task_.value_wide);
    return true;
  }

  void read_keys(const StatePart& part, bool are_values, int begin, int end,
                 float* to) {
    if (are_values)
      return turn<float>([&](int p) { return values_ + p * task_.value_wide; },
                         part.dim, begin, end, to);
    if (position_[end - 1] < part.quantized_from)
      return turn<T>([&](int p) { return plain_row(part, p); }, part.dim, begin,
                     end, to);
    for (int p = begin; p < end; ++p)
      expand(part, p, loose_ + p * task_.loose_wide);
    turn<float>([&](int p) { return loose_ + p * task_.loose_wide; }, part.dim,
                begin, end, to);
  }

  // Sixteen positions by sixteen dimensions at a time.
  template <typename E, typename RowAt>
  static void turn(RowAt row_at, int dim, int begin, int end, float* to) {
    for (int p = begin / 16 * 16; p < end; p += 16) {
      const int first = most(begin - p, 0), last = least(end - p, 16);
      const E* rows[16];
      for (int i = first; i < last; ++i) rows[i] = row_at(p + i);
      for (int d = 0; d < dim; d += 16) {
        Vec16 m[16];
        if (first == 0 && last == 16 && dim - d >= 16)
          for (int i = 0; i < 16; ++i) m[i] = load(rows[i] + d);
        else
          for (int i = 0; i < 16; ++i)
            m[i] =
                i >= first && i < last ? load_dims(rows[i], d, dim) : zeros();
        transpose(m);
        for (int i = 0; i < 16; ++i)
          store(to + (d + i) * kAttentionTile + p, m[i]);
      }
    }
  }

  const AttentionTask& task_;
  const AttentionItem& item_;
  float* const keys_;    // [key_wide + 16][tile], as parts are no whole vectors
  float* const values_;  // [tile][value_wide]
  float* const loose_;   // [tile][loose_wide]
  const float* tile_values_ = nullptr;
  std::int64_t tile_values_row_ = 0;
  int position_[kAttentionTile];
  std::int64_t row_[kAttentionTile];  // in the pools
};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
