#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/cpu/matmul_task.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}
int round_up(int a, int b) {
  return divide_up(a, b) * b;
}

// Rows of x that are widened at once: bounds the memory, and costs another
// pass over the weights for so many rows.
constexpr int kRowsAtOnce = 4 * kTileRows;

// The first tasks of a loop to end should find something left to take; the
// last one to end should not be waited for long.
constexpr int kTasksPerThread = 4;

void multiply_few(const MatmulTask& task, const float* x, Tile tile) {
  const int weights = std::max(
      16,
      round_up(divide_up(task.w.rows, kTasksPerThread * thread_count()), 16));
  const auto few_rows = REPRISE_PICK_ISA(few_rows);
  parallel_for(divide_up(task.w.rows, weights), [&](int i) {
    Tile part = tile;
    part.weight = i * weights;
    part.weights = std::min(weights, task.w.rows - part.weight);
    few_rows(task, x, part);
  });
}

void multiply_many(const MatmulTask& task, const float* x, Tile rows) {
  const int stride = round_up(task.w.columns, 16);
  const int row_tiles = divide_up(rows.rows, kTileRows);
  const int weight_tiles = divide_up(task.w.rows, kTileWeights);
  const std::size_t floats = tile_sizes(task.w.columns).scratch_floats;
  const auto many_rows = REPRISE_PICK_ISA(many_rows);
  parallel_for(row_tiles * weight_tiles, [&](int i) {
    static thread_local Scratch scratch;
    const int first = i % row_tiles * kTileRows;
    Tile tile;
    tile.row = rows.row + first;
    tile.rows = std::min(kTileRows, rows.rows - first);
    tile.weight = i / row_tiles * kTileWeights;
    tile.weights = std::min(kTileWeights, task.w.rows - tile.weight);
    many_rows(task, x + static_cast<std::size_t>(first) * stride, tile,
              scratch.floats(floats));
  });
}

}  // namespace

TileSizes tile_sizes(int columns) {
  TileSizes sizes;
  sizes.blocks = std::max(1, divide_up(columns, kTileColumns));
  sizes.columns =
      round_up(divide_up(columns, sizes.blocks), sizes.blocks == 1 ? 16 : 128);
  // Rounding up may have made the last block superfluous.
  sizes.blocks = std::max(1, divide_up(columns, std::max(1, sizes.columns)));
  // Rows whose distance is a power of two would fight for the same places in
  // the cache.
  sizes.row_floats = round_up(sizes.columns, 16) + 16;
  sizes.scratch_floats =
      static_cast<std::size_t>(kTileRows) *
          (kTileWeights + kPanelWeights * 16) +
      static_cast<std::size_t>(kPanelWeights) * sizes.row_floats;
  return sizes;
}

void matmul(const MatmulTask& task) {
  static thread_local Scratch scratch;
  const auto stride = static_cast<std::size_t>(round_up(task.w.columns, 16));
  const auto widen_row = REPRISE_PICK_ISA(widen_row);
  for (int row = 0; row < task.rows; row += kRowsAtOnce) {
    Tile tile;
    tile.row = row;
    tile.rows = std::min(kRowsAtOnce, task.rows - row);
    float* const x = scratch.floats(stride * tile.rows);
    if (tile.rows <= kFewRows) {
      for (int r = 0; r < tile.rows; ++r)
        widen_row(task, row + r, x + stride * r);
      multiply_few(task, x, tile);
    } else {
      constexpr int kTogether = 8;
      parallel_for(divide_up(tile.rows, kTogether), [&](int i) {
        const int end = std::min((i + 1) * kTogether, tile.rows);
        for (int r = i * kTogether; r < end; ++r)
          widen_row(task, row + r, x + stride * r);
      });
      multiply_many(task, x, tile);
    }
  }
}

void take_rows(const TakeRowsTask& task) {
  for (int i = 0; i < task.count; ++i)
    if (task.ids[i] < 0 || task.ids[i] >= task.w.rows)
      throw std::out_of_range(
          fmt::format("[take_rows] id {} is outside of the {} rows",
                      task.ids[i], task.w.rows));
  const std::size_t bytes =
      task.w.columns * (task.type == ElementType::float32 ? 4u : 2u);
  constexpr int kTogether = 16;
  const auto take_row = REPRISE_PICK_ISA(take_row);
  parallel_for(divide_up(task.count, kTogether), [&](int i) {
    const int end = std::min((i + 1) * kTogether, task.count);
    for (int r = i * kTogether; r < end; ++r)
      take_row(task.w, task.ids[r], task.type, task.out + bytes * r);
  });
}

}  // namespace reprise::kernels::cpu
