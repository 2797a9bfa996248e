// The products of matmul_task.h, included by matmul_<isa>.cpp.
#pragma once

#include "kernels/cpu/matmul_task.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/weight_rows.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// Sums kept in registers at once: rows of x by weights. A load of each row
// and each weight serves all of them.
#if REPRISE_ISA_NUMBER(REPRISE_ISA) == 3  // 32 registers
inline constexpr int kRegisterRows = 4, kRegisterWeights = 6;
inline constexpr int kFewWeights[] = {0, 8, 8, 4, 4};  // by rows of x
#elif REPRISE_ISA_NUMBER(REPRISE_ISA) == 2  // 16, and a sum takes two
inline constexpr int kRegisterRows = 2, kRegisterWeights = 3;
inline constexpr int kFewWeights[] = {0, 4, 2, 1, 1};
#else
inline constexpr int kRegisterRows = 2, kRegisterWeights = 2;
inline constexpr int kFewWeights[] = {0, 2, 2, 1, 1};
#endif

// Loops over them must be unrolled in full: what is indexed by a variable
// lies in memory.
#define REPRISE_UNROLL _Pragma("GCC unroll 32")

template <int kRows, int kWeights>
struct Sums {
  static constexpr int kCount = kRows * kWeights;
  Vec16 all[kCount];

  Vec16& at(int row, int weight) { return all[row * kWeights + weight]; }

  void clear() {
    REPRISE_UNROLL
    for (int i = 0; i < kCount; ++i) all[i] = zeros();
  }
  void read(const float* p) {
    REPRISE_UNROLL
    for (int i = 0; i < kCount; ++i) all[i] = load(p + 16 * i);
  }
  void write(float* p) const {
    REPRISE_UNROLL
    for (int i = 0; i < kCount; ++i) store(p + 16 * i, all[i]);
  }

  // Adds the lanes up, to out[row * stride + weight].
  void reduce(float* out, int stride) const {
    float totals[kCount];
    REPRISE_UNROLL
    for (int i = 0; i + 4 <= kCount; i += 4)
      sum4(all[i], all[i + 1], all[i + 2], all[i + 3], totals + i);
    REPRISE_UNROLL
    for (int i = kCount / 4 * 4; i < kCount; ++i) totals[i] = sum(all[i]);
    for (int r = 0; r < kRows; ++r)
      for (int n = 0; n < kWeights; ++n)
        out[r * stride + n] = totals[r * kWeights + n];
  }
};

// ---- Few rows -----------------------------------------------------------

// Rows are short and read side by side, which the processor does not see
// through: while some are at work, this asks for what lies behind them, as
// many bytes at a time as are used. It may point past the end.
template <int kBytes>
class Ahead {
 public:
  explicit Ahead(const void* start) : p_(static_cast<const char*>(start)) {}
  void fetch() {
    for (int line = 0; line < kLines; ++line)
      __builtin_prefetch(p_ + 64 * line);
    p_ += 64 * kLines;
  }

 private:
  static constexpr int kLines = (kBytes + 63) / 64;
  const char* p_;
};

template <typename T, int kRows, int kWeights>
inline void few_dense(const WeightMatrix& w, int first, const float* x,
                      int stride, Sums<kRows, kWeights>& sums) {
  const T* p[kWeights];
  for (int n = 0; n < kWeights; ++n)
    p[n] = reinterpret_cast<const T*>(w.data + (first + n) * w.row_bytes);
  const auto add_products = [&](int k, auto load_weights) {
    REPRISE_UNROLL
    for (int n = 0; n < kWeights; ++n) {
      const Vec16 weights = load_weights(p[n] + k);
      REPRISE_UNROLL
      for (int r = 0; r < kRows; ++r)
        sums.at(r, n) = fma(load(x + r * stride + k), weights, sums.at(r, n));
    }
  };
  Ahead<kWeights * 16 * sizeof(T)> ahead(p[0] + kWeights * w.columns);
  int k = 0;
  for (; k + 16 <= w.columns; k += 16) {
    ahead.fetch();
    add_products(k, [](const T* q) { return load(q); });
  }
  if (k < w.columns)
    add_products(k, [&](const T* q) { return load_first(q, w.columns - k); });
}

template <int kBits, int kRows, int kWeights>
inline void few_quantized(const WeightMatrix& w, int first, const float* x,
                          int stride, Sums<kRows, kWeights>& sums) {
  using Dequantizer = AnyOrderDequantizer<kBits>;
  const auto* p =
      reinterpret_cast<const std::uint8_t*>(w.data) + first * w.row_bytes;
  const std::int64_t row_bytes = w.row_bytes;
  // The next sixteen columns.
  const auto multiply = [&](const Dequantizer* dequantize) {
    Vec16 arranged[kRows];
    REPRISE_UNROLL
    for (int r = 0; r < kRows; ++r)
      arranged[r] = Dequantizer::to_order(load(x + r * stride));
    REPRISE_UNROLL
    for (int n = 0; n < kWeights; ++n) {
      const Vec16 weights = dequantize[n](p + n * row_bytes);
      REPRISE_UNROLL
      for (int r = 0; r < kRows; ++r)
        sums.at(r, n) = fma(arranged[r], weights, sums.at(r, n));
    }
    p += 2 * kBits;
    x += 16;
  };
  Ahead<kWeights * 4 * kBits> ahead(p + kWeights * row_bytes);
  GroupScales<kWeights> groups;
  const int group_pairs = w.group_size / 32;  // of sixteen columns
  const int count = w.columns / w.group_size;
  for (int begin = 0; begin < count; begin += kGroupsAtOnce) {
    const int here = smaller(kGroupsAtOnce, count - begin);
    groups.read(w, first, begin, here);
    for (int g = 0; g < here; ++g) {
      Dequantizer dequantize[kWeights];
      for (int n = 0; n < kWeights; ++n)
        dequantize[n] = Dequantizer(groups.scale[n][g], groups.bias[n][g]);
      for (int pair = 0; pair < group_pairs; ++pair) {
        ahead.fetch();
        multiply(dequantize);
        multiply(dequantize);
      }
    }
  }
  REPRISE_UNROLL
  for (int i = 0; i < kRows * kWeights; ++i)
    sums.all[i] = Dequantizer::from_order(sums.all[i]);
}

// Results are gathered here before they are rounded and stored.
inline constexpr int kFewAtOnce = 64;

template <int kRows, int kWeights>
void few_weights(const WeightMatrix& w, int first, const float* x, int stride,
                 float* out) {
  Sums<kRows, kWeights> sums;
  sums.clear();
  if (w.bits == 0)
    with_elements(w.data, w.type, [&]<typename T>(const T*) {
      few_dense<T>(w, first, x, stride, sums);
    });
  else
    with_bits(w.bits, [&]<int kBits>() {
      few_quantized<kBits>(w, first, x, stride, sums);
    });
  sums.reduce(out, kFewAtOnce);
}

template <int kRows>
inline void few_rows_of(const MatmulTask& task, const float* x,
                        const Tile& tile) {
  constexpr int kWeights = kFewWeights[kRows];
  const int stride = (task.w.columns + 15) / 16 * 16;
  alignas(64) float sums[kRows][kFewAtOnce];
  for (int begin = 0; begin < tile.weights; begin += kFewAtOnce) {
    const int here = smaller(kFewAtOnce, tile.weights - begin);
    const int first = tile.weight + begin;
    int n = 0;
    for (; n + kWeights <= here; n += kWeights)
      few_weights<kRows, kWeights>(task.w, first + n, x, stride, &sums[0][n]);
    for (; n < here; ++n)
      few_weights<kRows, 1>(task.w, first + n, x, stride, &sums[0][n]);
    for (int r = 0; r < kRows; ++r)
      narrow(sums[r], here, task.out_type, task.out,
             task.out_offset(tile.row + r, first));
  }
}

void few_rows(const MatmulTask& task, const float* x, const Tile& tile) {
  switch (tile.rows) {
    case 1:
      return few_rows_of<1>(task, x, tile);
    case 2:
      return few_rows_of<2>(task, x, tile);
    case 3:
      return few_rows_of<3>(task, x, tile);
    case 4:
      return few_rows_of<4>(task, x, tile);
  }
}

// ---- Many rows ----------------------------------------------------------

// One register tile over one block of K.
struct Block {
  const float* x;
  int x_stride;
  const float* w;
  int w_stride;
  int columns;    // multiple of 16
  float* carry;   // sums between blocks of K
  bool first;     // starts at zero, otherwise at carry
  bool last;      // ends in result, otherwise in carry
  float* result;  // at row * kTileWeights + weight
};

template <int kRows, int kWeights>
void multiply(const Block& b) {
  Sums<kRows, kWeights> sums;
  if (b.first)
    sums.clear();
  else
    sums.read(b.carry);
  for (int k = 0; k < b.columns; k += 16) {
    Vec16 x[kRows];
    REPRISE_UNROLL
    for (int r = 0; r < kRows; ++r) x[r] = load(b.x + r * b.x_stride + k);
    REPRISE_UNROLL
    for (int n = 0; n < kWeights; ++n) {
      const Vec16 w = load(b.w + n * b.w_stride + k);
      REPRISE_UNROLL
      for (int r = 0; r < kRows; ++r)
        sums.at(r, n) = fma(x[r], w, sums.at(r, n));
    }
  }
  if (b.last)
    sums.reduce(b.result, kTileWeights);
  else
    sums.write(b.carry);
}

// multiply() of the size that is left at an edge.
template <int kRows, int kWeights>
inline void multiply_edge(int rows, int weights, const Block& b) {
  if (rows < kRows) {
    if constexpr (kRows > 1)
      multiply_edge<kRows - 1, kWeights>(rows, weights, b);
  } else if (weights < kWeights) {
    if constexpr (kWeights > 1)
      multiply_edge<kRows, kWeights - 1>(rows, weights, b);
  } else {
    multiply<kRows, kWeights>(b);
  }
}

// A few weights, expanded block by block of K, by all rows of the tile: the
// expanded weights stay in the first cache while the rows pass by.
inline void multiply_panel(const WeightMatrix& w, const float* x,
                           const Tile& panel, Block b, float* expanded) {
  const TileSizes sizes = tile_sizes(w.columns);
  float* const carry = b.carry;
  float* const result = b.result;
  b.w = expanded;
  b.w_stride = sizes.row_floats;
  for (int i = 0; i < sizes.blocks; ++i) {
    const int begin = i * sizes.columns;
    const int columns = smaller(sizes.columns, w.columns - begin);
    for (int n = 0; n < panel.weights; ++n)
      expand(w, panel.weight + n, begin, columns, expanded + n * b.w_stride);
    b.columns = (columns + 15) / 16 * 16;
    b.first = i == 0;
    b.last = i + 1 == sizes.blocks;
    for (int r = 0; r < panel.rows; r += kRegisterRows) {
      b.x = x + std::int64_t{r} * b.x_stride + begin;
      b.carry = carry + r * kRegisterWeights * 16;
      b.result = result + r * kTileWeights;
      multiply_edge<kRegisterRows, kRegisterWeights>(
          smaller(kRegisterRows, panel.rows - r), panel.weights, b);
    }
  }
}

void many_rows(const MatmulTask& task, const float* x, const Tile& tile,
               float* scratch) {
  static_assert(kRegisterWeights <= kPanelWeights);
  const WeightMatrix& w = task.w;
  float* const result = scratch;
  Block b{};
  b.x_stride = (w.columns + 15) / 16 * 16;
  b.carry = result + kTileRows * kTileWeights;
  float* const expanded = b.carry + kTileRows * kPanelWeights * 16;
  for (int n = 0; n < tile.weights; n += kRegisterWeights) {
    Tile panel = tile;
    panel.weight += n;
    panel.weights = smaller(kRegisterWeights, tile.weights - n);
    b.result = result + n;
    multiply_panel(w, x, panel, b, expanded);
  }
  for (int r = 0; r < tile.rows; ++r)
    narrow(result + r * kTileWeights, tile.weights, task.out_type, task.out,
           task.out_offset(tile.row + r, tile.weight));
}

// ---- Rows ---------------------------------------------------------------

void widen_row(const MatmulTask& task, int row, float* out) {
  with_elements(task.x + row * task.x_row_bytes, task.type,
                [&](auto* p) { widen(p, 0, task.w.columns, out); });
}

void take_row(const WeightMatrix& w, int id, ElementType type, char* out) {
  constexpr int kAtOnce = 1024;
  alignas(64) float row[kAtOnce];
  for (int k = 0; k < w.columns; k += kAtOnce) {
    const int here = smaller(kAtOnce, w.columns - k);
    expand(w, id, k, here, row);
    narrow(row, here, type, out, k);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
