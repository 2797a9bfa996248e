// Runs an attention on the calling thread and the thread pool.
#pragma once

#include "kernels/cpu/attention_task.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

// From MLX's CPU stream thread. Returns when task.out is written.
void run_attention(const AttentionTask& task, const RaggedBatch& batch);

}  // namespace reprise::kernels::cpu
