// The geometry of one step, as plain host data shared by all layers: which
// rows of the flattened batch [tokens, dim] belong to which span, at which
// absolute positions, and where their state rows lie in the pools. No MLX.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::kernels {

struct RaggedSpan {
  int first_row = 0;  // of this span in the flattened batch
  int row_count = 0;
  int start = 0;  // absolute position of the first row
  // Block table: the state row of position p lies at pool row
  // blocks[p / 256] * 256 + p % 256, for every p < start + row_count.
  std::vector<std::int32_t> blocks;
  // State slots, for what a sequence has one value of: where the value before
  // the first row lies (-1: none yet), and where the one after the last row
  // goes (-1: nowhere). A slot that is written is nobody's slot_from.
  std::int32_t slot_from = -1, slot_to = -1;

  int length_after() const { return start + row_count; }
};

struct RowCopy {  // `rows` pool rows starting at from_row, to to_row
  std::int64_t from_row = 0;
  std::int64_t to_row = 0;
  int rows = 0;
};

struct RaggedBatch {
  int tokens = 0;
  std::vector<RaggedSpan> spans;        // cover rows [0, tokens) in order
  std::vector<std::int64_t> pool_rows;  // [tokens]: where each row is written
  std::vector<RowCopy> copies;          // done before any row is written
};

// Kernels keep it alive for as long as the step is in flight.
using RaggedBatchPtr = std::shared_ptr<const RaggedBatch>;

}  // namespace reprise::kernels
