// What operations over state check of a batch when the graph is built. All
// throw std::invalid_argument "[op] ...".
#pragma once

#include <cstdint>

#include "kernels/ragged_batch.h"

namespace reprise::kernels {

// The spans cover `tokens` rows in order, at positions that exist.
void check_cover(const char* op, const RaggedBatch& batch, int tokens);

// The span's table reaches to its end, and from the block of `first_position`
// on names blocks of a pool of so many.
void check_blocks(const char* op, const RaggedSpan& span, int first_position,
                  std::int64_t blocks);

// Slots lie inside a pool of `slots`, and none that is written is read or
// written by another span.
void check_slots(const char* op, const RaggedBatch& batch, int slots);

// For a value that goes from token to token: check_cover(), check_slots(), and
// only a sequence's beginning has no slot to go on from.
void check_carried(const char* op, const RaggedBatch& batch, int tokens,
                   int slots);

}  // namespace reprise::kernels
