// The memory of all state: one pool [blocks * rows a block, row elements] for
// each family of each layer, made once and never moved. What a pool's rows
// mean is known by whoever holds block ids (prefix/block_allocator.h).
//
// On the CPU the pools are one private mapping: a page costs memory from its
// first write on, and not before. Elsewhere they are MLX arrays. The handles
// are never reassigned: steps write through kernels::append, whose output
// shares the buffer, so nothing is ever donated or copied.
//
// Owned and used by the engine's thread.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <vector>

#include "cache/state_layout.h"

namespace reprise {

class BlockPools {
 public:
  // Throws std::invalid_argument for a layout that cannot be kept in blocks
  // (Snapshot families), std::runtime_error when the address space is short.
  BlockPools(StateLayout layout, int block_count);

  const mlx::core::array& pool(int layer, int family) const {
    return pools_[layer][family];
  }
  int block_count() const { return block_count_; }
  const StateLayout& layout() const { return layout_; }

 private:
  const StateLayout layout_;
  const int block_count_;
  std::vector<std::vector<mlx::core::array>> pools_;
};

}  // namespace reprise
