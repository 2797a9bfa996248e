// Attention over state as it is stored. Part of ops.h, whose rules hold.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <vector>

#include "kernels/ragged_batch.h"
#include "kernels/state_rows.h"

namespace reprise::kernels {

struct AttentionShape {
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 0;  // of queries and keys, all parts together
  float scale = 1.0f;
  int value_dim = 0;     // 0: head_dim
  int window = 0;        // positions that a query sees, its own last; 0: all
  float softcap = 0.0f;  // c: scores become c * tanh(score / c); 0: none

  int values() const { return value_dim > 0 ? value_dim : head_dim; }
};

// Attention of q [T, heads * head_dim] over state rows in pools, through the
// batch's block tables → [T, heads * value_dim]. Causal: the query at absolute
// position p reads positions max(0, p - window + 1)..p, and no block before
// the first of them: its id may be -1. Sums run over positions in ascending
// order in tiles that begin at absolute multiples of a constant.
//
// A key is the concatenation of its parts: one or two families, each with
// kv_heads heads. Grouped attention has K as keys and V as values. Latent
// attention with absorbed projections has one head of keys, {latent, rotated
// key} or {latent}, and the same latent as values; it is then read only once.
//
// sinks, any float dtype [heads]: a logit that joins the softmax's sum and has
// no value.
//
// All states are outputs of append() in this step. Plain pools have q's dtype.
array attention(const array& q, const std::vector<StateRows>& keys,
                const StateRows& values, const RaggedBatchPtr& batch,
                const AttentionShape& shape,
                const std::optional<array>& sinks = std::nullopt);

// With plain pools [pool rows, kv_heads * dim].
array attention(const array& q, const array& keys, const array& values,
                const RaggedBatchPtr& batch, const AttentionShape& shape);

}  // namespace reprise::kernels
