// Runs an attention on the calling thread and the thread pool.
#pragma once

#include <vector>

#include "kernels/cpu/attention_task.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

// Adds the items of a span's first `rows` rows.
void add_items(const AttentionTask& task, const RaggedSpan& span, int rows,
               std::vector<AttentionItem>& items);

// From MLX's CPU stream thread. Return when task.out is written. The task is
// laid out. Memory that items point to lives until then.
void run_attention(const AttentionTask& task,
                   const std::vector<AttentionItem>& items);
void run_attention(const AttentionTask& task, const RaggedBatch& batch);

}  // namespace reprise::kernels::cpu
