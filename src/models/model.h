// A model: one file per architecture builds the graph of a step. It declares
// the state it keeps; nobody outside its file asks what its layers are.
#pragma once

#include <mlx/array.h>

#include "cache/block_pools.h"
#include "cache/state_layout.h"
#include "kernels/ragged_batch.h"

namespace reprise {

struct ModelShape {
  int vocabulary = 0;      // logits of a row
  int context_tokens = 0;  // positions it was trained for
  int layers = 0;
};

struct StepInput {
  mlx::core::array token_ids;    // int32 [T], in the batch's row order
  mlx::core::array logits_rows;  // int32 [L]: rows whose logits are wanted
  kernels::RaggedBatchPtr batch;
};

// Built and used on one thread: the engine's.
class Model {
 public:
  virtual ~Model() = default;
  virtual ModelShape shape() const = 0;
  virtual StateLayout state_layout() const = 0;

  // The graph of one step: logits float32 [L, vocabulary]. State rows of the
  // step are written to `pools` when the result is evaluated. Pools must have
  // this model's layout.
  virtual mlx::core::array forward(const StepInput& input,
                                   const BlockPools& pools) const = 0;
};

}  // namespace reprise
