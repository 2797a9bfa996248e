// What state a model keeps: per layer, its families. A model declares this
// once; pools, blocks and everything above them follow from it.
#pragma once

#include <mlx/dtype.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cache/growth.h"
#include "kernels/state_rows.h"

namespace reprise {

// Rows of positions from `from` on, a multiple of kBlockTokens, are stored in
// fewer bits; a row's position alone decides, and nothing is ever converted.
struct RowQuantization {
  kernels::RowCodec codec;
  int from = 0;
};

struct StateFamily {
  std::string name;  // unique in its layer: "keys", "values", "latent", ...
  Growth growth;
  int row_elements = 0;
  mlx::core::Dtype dtype = mlx::core::float32;
  // Elements of a head of rows that attention reads, which may be quantized;
  // 0: of other rows, which never are.
  int head_dim = 0;
  std::optional<RowQuantization> quantized = {};

  // Of a row that is plain, and of one as the last positions have it.
  std::size_t plain_row_bytes() const;
  std::size_t row_bytes() const;
  // Of rows, which Growth counts for positions.
  std::size_t bytes_of(RowRange rows) const;
};

using LayerState = std::vector<StateFamily>;
using StateLayout = std::vector<LayerState>;  // by layer

// The layout with every family quantized whose rows can be: whole groups, and
// heads of whole vectors (kernels::can_quantize).
StateLayout quantized_layout(StateLayout layout,
                             const RowQuantization& quantization);

// Bytes of one block (kBlockTokens tokens) over all layers and families: what
// it can take of the memory at most. A family that is quantized from a later
// position on has room for both forms, because a block that was at an early
// position may be at a late one next, and its pages stay.
std::size_t block_bytes(const StateLayout& layout);

// Bytes that a sequence of `tokens` needs to go on: rows_at() of every family.
std::size_t state_bytes(const LayerState& layer, int tokens);
std::size_t state_bytes(const StateLayout& layout, int tokens);

// Bytes that every further token adds for good, far enough into a text:
// PerToken rows, and the share of a Pooled one. Windows and snapshots have a
// bound instead.
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
