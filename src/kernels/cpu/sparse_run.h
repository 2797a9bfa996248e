// Runs a sparse attention on the calling thread and the thread pool.
#pragma once

#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/index_task.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

// From MLX's CPU stream thread. Returns when task.out is written. The task is
// laid out and has no window. Working memory is bounded: scores of a few
// tokens at a time.
void run_sparse_attention(const AttentionTask& task, const IndexTask& index,
                          const RaggedBatch& batch);

}  // namespace reprise::kernels::cpu
