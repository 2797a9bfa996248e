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
inline constexpr int kFewWeights[] = {0, 4, 4, 4, 4};  // by rows of x
#elif REPRISE_ISA_NUMBER(REPRISE_ISA) == 2  // 16, and a sum takes two
inline constexpr int kRegisterRows = 2, kRegisterWeights = 3;
inline constexpr int kFewWeights[] = {0, 4, 2, 1, 1};
#else
inline constexpr int kRegisterRows = 2, kRegisterWeights = 2;
inline constexpr int kFewWeights[] = {0, 2, 2, 1, 1};
#endif

template <int kRows, int kWeights>
struct Sums {
  Vec16 at[kRows][kWeights];

  void clear() {
    for (auto& row : at)
      for (Vec16& sum : row) sum = zeros();
  }

  // Elements are at p + (row * kWeights + weight) * 16.
  void read(const float* p) {
    for (int r = 0; r < kRows; ++r)
      for (int n = 0; n < kWeights; ++n)
        at[r][n] = load(p + (r * kWeights + n) * 16);
  }
  void write(float* p) const {
    for (int r = 0; r < kRows; ++r)
      for (int n = 0; n < kWeights; ++n)
        store(p + (r * kWeights + n) * 16, at[r][n]);
  }

  // Adds the lanes up, to out[row * stride + weight].
  void reduce(float* out, int stride) const {
    for (int r = 0; r < kRows; ++r) {
      int n = 0;
      for (; n + 4 <= kWeights; n += 4)
        sum4(at[r][n], at[r][n + 1], at[r][n + 2], at[r][n + 3],
             out + r * stride + n);
      for (; n < kWeights; ++n) out[r * stride + n] = sum(at[r][n]);
    }
  }
};

// ---- Few rows -----------------------------------------------------------

template <int kRows, int kWeights>
inline void add_products(Sums<kRows, kWeights>& sums, const float* x,
                         int stride, int weight, Vec16 w) {
  for (int r = 0; r < kRows; ++r)
    sums.at[r][weight] = fma(load(x + r * stride), w, sums.at[r][weight]);
}

template <typename T, int kRows, int kWeights>
inline void few_dense(const WeightMatrix& w, int first, const float* x,
                      int stride, Sums<kRows, kWeights>& sums) {
  const T* p[kWeights];
  for (int n = 0; n < kWeights; ++n)
    p[n] = reinterpret_cast<const T*>(w.data + (first + n) * w.row_bytes);
  int k = 0;
  for (; k + 16 <= w.columns; k += 16)
    for (int n = 0; n < kWeights; ++n)
      add_products(sums, x + k, stride, n, load(p[n] + k));
  if (k < w.columns)
    for (int n = 0; n < kWeights; ++n)
      add_products(sums, x + k, stride, n, load_first(p[n] + k, w.columns - k));
}

template <int kBits, int kRows, int kWeights>
inline void few_quantized(const WeightMatrix& w, int first, const float* x,
                          int stride, Sums<kRows, kWeights>& sums) {
  const std::uint8_t* p[kWeights];
  for (int n = 0; n < kWeights; ++n)
    p[n] = reinterpret_cast<const std::uint8_t*>(w.data) +
           (first + n) * w.row_bytes;
  GroupScales groups[kWeights];
  const int count = w.columns / w.group_size;
  for (int begin = 0; begin < count; begin += kGroupsAtOnce) {
    const int here = smaller(kGroupsAtOnce, count - begin);
    for (int n = 0; n < kWeights; ++n)
      groups[n].read(w, first + n, begin, here);
    for (int g = 0; g < here; ++g) {
      Dequantizer<kBits> dequantize[kWeights];
      for (int n = 0; n < kWeights; ++n)
        dequantize[n] =
            Dequantizer<kBits>(groups[n].scale[g], groups[n].bias[g]);
      for (int j = 0; j < w.group_size; j += 16) {
        for (int n = 0; n < kWeights; ++n) {
          add_products(sums, x, stride, n, dequantize[n](p[n]));
          p[n] += 2 * kBits;
        }
        x += 16;
      }
    }
  }
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
      narrow(sums[r], here, task.type, task.out,
             std::int64_t{tile.row + r} * task.w.rows + first);
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
  float* carry;   // sums between blocks
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
    for (int r = 0; r < kRows; ++r) x[r] = load(b.x + r * b.x_stride + k);
    for (int n = 0; n < kWeights; ++n) {
      const Vec16 w = load(b.w + n * b.w_stride + k);
      for (int r = 0; r < kRows; ++r)
        sums.at[r][n] = fma(x[r], w, sums.at[r][n]);
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

// All register tiles of a tile, over one block of K. The weights of a register
// tile stay in the first cache while the rows pass by.
inline void multiply_tile(const Tile& tile, Block b) {
  const Block start = b;
  for (int n = 0; n < tile.weights; n += kRegisterWeights) {
    for (int r = 0; r < tile.rows; r += kRegisterRows) {
      b.x = start.x + std::int64_t{r} * b.x_stride;
      b.w = start.w + n * b.w_stride;
      b.carry = start.carry + (n * kTileRows + r * kRegisterWeights) * 16;
      b.result = start.result + r * kTileWeights + n;
      multiply_edge<kRegisterRows, kRegisterWeights>(
          smaller(kRegisterRows, tile.rows - r),
          smaller(kRegisterWeights, tile.weights - n), b);
    }
  }
}

void many_rows(const MatmulTask& task, const float* x, const Tile& tile,
               float* scratch) {
  const WeightMatrix& w = task.w;
  const TileSizes sizes = tile_sizes(w.columns);
  float* const result = scratch;
  float* const expanded = result + kTileRows * kTileWeights;
  Block b{};
  b.w = expanded;
  b.w_stride = sizes.columns;
  b.x_stride = (w.columns + 15) / 16 * 16;
  b.carry = expanded + kTileWeights * sizes.columns;
  b.result = result;
  for (int i = 0; i < sizes.blocks; ++i) {
    const int begin = i * sizes.columns;
    const int columns = smaller(sizes.columns, w.columns - begin);
    for (int n = 0; n < tile.weights; ++n)
      expand(w, tile.weight + n, begin, columns, expanded + n * sizes.columns);
    b.x = x + begin;
    b.columns = (columns + 15) / 16 * 16;
    b.first = i == 0;
    b.last = i + 1 == sizes.blocks;
    multiply_tile(tile, b);
  }
  for (int r = 0; r < tile.rows; ++r)
    narrow(result + r * kTileWeights, tile.weights, task.type, task.out,
           std::int64_t{tile.row + r} * w.rows + tile.weight);
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
