// Latent attention over the positions that an index of pooled keys selects.
// Part of ops.h, whose rules hold.
//
// `pool` tokens at absolute multiples of `pool` form a pool; once all of them
// are known, it has one index key. The query at position t scores the pools
// that are complete at t, attends to all tokens of the best, and always to
// those of the pool that is not, its own among them.
#pragma once

#include <mlx/array.h>

#include <vector>

#include "kernels/attention.h"
#include "kernels/ragged_batch.h"
#include "kernels/state_rows.h"

namespace reprise::kernels {

// The index of one layer, both of the activations' dtype, never quantized.
struct IndexPools {
  // [blocks * 256 / pool, dim]: pool p's key lies at row
  // blocks[p * pool / 256] * (256 / pool) + p * pool % 256 / pool.
  array pooled;
  // [slots, (pool - 1) * 2 * dim]: the rows of a pool that is not complete,
  // each a key and its gate. How many they are follows from the position.
  array partial;
};

// Appends index rows: keys and gates [T, dim] of this step, `ape` any float
// dtype [pool, dim], pool a divisor of 256. The key of a complete pool is, in
// each channel, the sum of its keys weighted by a softmax over its tokens of
// gate + ape, in float32, rounded once. Rows of pools that stay incomplete go
// to the span's slot_to, with those that slot_from already had, and zeros
// behind them; a span that starts inside a pool needs slot_from. Evaluating
// either output writes both.
IndexPools pool_index(const IndexPools& pools, const array& keys,
                      const array& gates, const array& ape,
                      const RaggedBatchPtr& batch);

struct IndexShape {
  int heads = 1;
  int dim = 0;
  int pool = 1;        // tokens; divides 256
  int budget = 0;      // tokens of the pools that are selected, >= pool
  float scale = 1.0f;  // of products of query and key
};

// attention() over what the index selects: the best budget / pool pools by
// sum over heads of weight * relu(query · key * scale), in float32; of equal
// ones the earlier. queries [T, heads * dim], of q's dtype, weights float32
// [T, heads]; pools.pooled is the output of pool_index() in this step. Where
// all complete pools are within the budget, the result has the bits of
// attention(). No windows. Selected positions are attended to in ascending
// order, in tiles of their list.
struct IndexQueries {
  array queries;
  array weights;
};
array sparse_attention(const array& q, const std::vector<StateRows>& keys,
                       const StateRows& values, const IndexQueries& index,
                       const IndexPools& pools, const RaggedBatchPtr& batch,
                       const AttentionShape& shape,
                       const IndexShape& index_shape);

}  // namespace reprise::kernels
