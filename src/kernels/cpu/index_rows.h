// Writing a step's index rows of sparse attention.
#pragma once

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/index_task.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

struct IndexRows {
  PoolingTask pooling;
  char* pooled = nullptr;      // [blocks * 256 / pool, dim]
  char* partial = nullptr;     // [slots, (pool - 1) * 2 * dim]
  RowView keys, gates;         // of the step
  std::int64_t row_bytes = 0;  // of dim elements
};

// From MLX's CPU stream thread: copies, then pools that become complete, then
// what remains of each span.
void write_index_rows(const IndexRows& rows, const RaggedBatch& batch);

}  // namespace reprise::kernels::cpu
