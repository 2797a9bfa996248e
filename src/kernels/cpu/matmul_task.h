// Products with a weight matrix as plain data: what the kernels of every
// instruction set are handed. Pointers stay valid while the task runs.
//
// The arithmetic, bit for bit alike whatever the number of rows, threads and
// the instruction set, for out[m, n] of x [M, K] and w [N, K]: sixteen partial
// sums in float32, where lane l takes k = 16 i + l for ascending i, each by one
// fused multiply-add; past the end of K both factors are zero; then the lanes
// are added in the tree of sum() (vec16.h). A quantized weight is
// fma(field, scale, bias) in float32. The sum is rounded to out's type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

// [rows, columns], as it lies in the file: dense, or packed fields of `bits`
// bits (little-endian) with a scale and a bias for each group of columns.
struct WeightMatrix {
  const char* data = nullptr;
  std::int64_t row_bytes = 0;
  int rows = 0;
  int columns = 0;
  // Of the elements, or of scales and biases.
  ElementType type = ElementType::float32;
  int bits = 0;  // 0: dense; or 2, 3, 4, 5, 6, 8
  int group_size = 0;
  const char* scales = nullptr;
  const char* biases = nullptr;
  std::int64_t scale_row_bytes = 0;
  std::int64_t bias_row_bytes = 0;
};

struct MatmulTask {
  const char* x = nullptr;  // [rows, w.columns]
  std::int64_t x_row_bytes = 0;
  int rows = 0;
  ElementType type = ElementType::float32;  // of x
  ElementType out_type = ElementType::float32;
  WeightMatrix w;
  char* out = nullptr;  // [rows, w.rows], contiguous
  // Which row of out each row of x has; null: the same.
  const std::int32_t* out_rows = nullptr;

  // Where results of row `row` begin, from weight `weight` on, in elements.
  std::int64_t out_offset(int row, int weight) const {
    const std::int64_t at = out_rows == nullptr ? row : out_rows[row];
    return at * w.rows + weight;
  }
};

// All of a task, on the threads of thread_pool.h.
void matmul(const MatmulTask& task);

struct TakeRowsTask {
  WeightMatrix w;
  const std::int32_t* ids = nullptr;
  int count = 0;
  ElementType type = ElementType::float32;  // of out
  char* out = nullptr;                      // [count, w.columns]
};

// Throws std::out_of_range for an id that is no row of w.
void take_rows(const TakeRowsTask& task);

// The pieces that the two are made of. x has been widened: row r is at
// x + r * stride, stride being the columns rounded up to 16 with zeros there.

inline constexpr int kFewRows = 4;  // see few_rows
// See many_rows: rows of x, and rows of w whose results are stored together;
// rows of w and columns of them that are expanded at a time, at most.
inline constexpr int kTileRows = 128;
inline constexpr int kTileWeights = 24;
inline constexpr int kPanelWeights = 6;
inline constexpr int kTileColumns = 1024;

struct TileSizes {  // of many_rows for w.columns columns
  int columns = 0;  // of a block of K: a multiple of 128 if there are several
  int blocks = 0;
  int row_floats = 0;  // from one expanded row to the next
  std::size_t scratch_floats = 0;
};
TileSizes tile_sizes(int columns);

struct Tile {
  int row = 0, rows = 0;        // of x, <= kFewRows or kTileRows
  int weight = 0, weights = 0;  // rows of w
};

REPRISE_DECLARE_PER_ISA(
    // One row of x to float32 with zeros behind it.
    void widen_row(const MatmulTask& task, int row, float* out);
    // Few rows of x: weights are expanded in registers, read once for all.
    // Any number of weights.
    void few_rows(const MatmulTask& task, const float* x, const Tile& tile);
    // Many rows of x: the weights of the tile (<= kTileWeights) are expanded
    // to memory of the thread, a panel at a time, for all rows.
    void many_rows(const MatmulTask& task, const float* x, const Tile& tile,
                   float* scratch);
    // Row `id` of w to out, in elements of `type`.
    void take_row(const WeightMatrix& w, int id, ElementType type, char* out);)

}  // namespace reprise::kernels::cpu
