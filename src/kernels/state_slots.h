// What operations over state slots check of a batch when the graph is built.
#pragma once

#include "kernels/ragged_batch.h"

namespace reprise::kernels {

// Throws std::invalid_argument "[op] ..." unless the spans cover `tokens` rows
// in order, slots lie inside a pool of `slots`, no slot that is written is read
// or written by another span, and only a sequence's beginning has none to go on
// from.
void check_slots(const char* op, const RaggedBatch& batch, int tokens,
                 int slots);

}  // namespace reprise::kernels
