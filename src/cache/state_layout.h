// What state a model keeps: per layer, its families. A model declares this
// once; pools, blocks and everything above them follow from it.
#pragma once

#include <mlx/dtype.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cache/growth.h"

namespace reprise {

struct StateFamily {
  std::string name;  // unique in its layer: "keys", "values", "latent", ...
  Growth growth;
  int row_elements = 0;
  mlx::core::Dtype dtype = mlx::core::float32;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(row_elements) * size_of(dtype);
  }
};

using LayerState = std::vector<StateFamily>;
using StateLayout = std::vector<LayerState>;  // by layer

// Bytes of one block (kBlockTokens tokens) over all layers and families.
std::size_t block_bytes(const StateLayout& layout);

// Bytes that a sequence of `tokens` needs to go on: rows_at() of every family.
std::size_t state_bytes(const LayerState& layer, int tokens);
std::size_t state_bytes(const StateLayout& layout, int tokens);

// Bytes that every further token adds for good: PerToken rows, and the share
// of a Pooled one. Windows and snapshots have a bound instead.
double token_bytes(const LayerState& layer);

// Bytes that are copied for each snapshot of a sequence: Snapshot families.
std::size_t snapshot_bytes(const LayerState& layer);
std::size_t snapshot_bytes(const StateLayout& layout);

// How --state-memory is shared out. A model without snapshots has blocks only.
// Others have two slots for each of `parallel` sequences, and of what is left
// blocks and further slots, for the prefix cache, take half each.
struct PoolSizes {
  int blocks = 0;
  int slots = 0;
};
// `bytes` is what there is; blocks is 0 where not even one fits.
PoolSizes share_out(const StateLayout& layout, std::size_t bytes, int parallel);

}  // namespace reprise
