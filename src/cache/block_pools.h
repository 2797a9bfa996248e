// The memory of all state: one pool for each family of each layer, made once
// and never moved: [blocks * rows a block, row elements], and for a Snapshot
// family [slots, row elements]. What a pool's rows mean is known by whoever
// holds ids of blocks and slots (prefix/block_allocator.h).
//
// On the CPU the pools are one private mapping: a page costs memory from its
// first write on, and not before. Elsewhere they are MLX arrays. The handles
// are never reassigned: steps write through kernels::append, whose output
// shares the buffer, so nothing is ever donated or copied.
//
// A family that is quantized has two pools, which block ids index alike. Where
// its rows are quantized from the beginning, no page of the plain one is ever
// touched.
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
  // slot_count: 0 where no family is a Snapshot. Throws std::invalid_argument
  // for counts that do not fit the layout, std::runtime_error when the address
  // space is short.
  BlockPools(StateLayout layout, int block_count, int slot_count = 0);

  // Of a family that is not quantized.
  const mlx::core::array& pool(int layer, int family) const {
    return pools_[layer][family].plain;
  }
  // Of a family whose rows attention reads.
  const kernels::StateRows& rows(int layer, int family) const {
    return pools_[layer][family];
  }
  int block_count() const { return block_count_; }
  int slot_count() const { return slot_count_; }
  const StateLayout& layout() const { return layout_; }

 private:
  const StateLayout layout_;
  const int block_count_;
  const int slot_count_;
  std::vector<std::vector<kernels::StateRows>> pools_;
};

}  // namespace reprise
