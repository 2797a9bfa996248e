// Grouped-query self-attention with rotary positions: projections, where the
// model has it an RMS norm of each head, rotation, attention over the
// sequence's state, output projection.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>

#include "cache/block_pools.h"
#include "cache/state_layout.h"
#include "kernels/ops.h"
#include "layers/linear.h"
#include "layers/rope.h"

namespace reprise {

struct GroupedHeads {
  int heads = 1;
  int kv_heads = 1;  // divides heads
  int head_dim = 0;

  int q_dim() const { return heads * head_dim; }
  int kv_dim() const { return kv_heads * head_dim; }
};

// Throws std::runtime_error for heads that cannot be shared or cannot rotate.
void require_heads(const GroupedHeads& shape);

struct GroupedAttention {
  GroupedHeads shape;
  Linear q;     // [heads * head_dim, hidden]
  Linear k, v;  // [kv_heads * head_dim, hidden]
  Linear o;     // [hidden, heads * head_dim]
  // Of each head of q and of k, before the rotation: [head_dim].
  std::optional<mlx::core::array> q_norm, k_norm;
  float norm_eps = 0;
};

struct GroupedAttentionOptions {
  GroupedHeads shape;
  int hidden = 0;
  bool head_norms = false;
  float norm_eps = 0;  // of the head norms
};

// A bias that is silently missing or silently added is a wrong model: throws
// std::runtime_error where the configuration has "attention_bias" and the
// checkpoint says otherwise.
void check_attention_bias(const Checkpoint& checkpoint,
                          const std::string& module);

// "<module>.q_proj", ".k_proj", ".v_proj", ".o_proj", and with head_norms
// ".q_norm.weight" and ".k_norm.weight". Biases are taken as stored. Throws as
// check_attention_bias, and for wrong shapes, std::runtime_error naming the
// tensor.
GroupedAttention load_grouped_attention(const Checkpoint& checkpoint,
                                        const std::string& module,
                                        const GroupedAttentionOptions& options);

// What all layers need of one step.
struct LayerStep {
  const BlockPools& pools;
  kernels::RaggedBatchPtr batch;
  std::optional<kernels::RopeTable> rope;  // none: no positions
  bool rope_interleaved = false;
};

// x [T, hidden] → [T, hidden]. Keys and values become the step's rows of the
// layer's families 0 and 1 (key_value_state()).
mlx::core::array grouped_attention(const mlx::core::array& x,
                                   const GroupedAttention& attention,
                                   const LayerStep& step, int layer);

// The state that one such layer keeps.
LayerState key_value_state(const GroupedHeads& shape, mlx::core::Dtype dtype);

}  // namespace reprise
