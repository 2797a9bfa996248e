// Attention over a sequence's state: this step's rows are written first, then
// everything is read through what the write gave back.
#pragma once

#include <mlx/array.h>

#include "cache/block_pools.h"
#include "kernels/ops.h"

namespace reprise {

// q [T, heads * head_dim], k and v [T, kv_heads * head_dim] of this step →
// [T, heads * head_dim]. k and v become rows of the layer's families `keys`
// and `values` (indices into the layer's layout).
struct AttendState {
  const BlockPools& pools;
  int layer = 0;
  int keys = 0;
  int values = 1;
};
mlx::core::array attend(const mlx::core::array& q, const mlx::core::array& k,
                        const mlx::core::array& v, const AttendState& state,
                        const kernels::RaggedBatchPtr& batch,
                        const kernels::AttentionShape& shape);

}  // namespace reprise
