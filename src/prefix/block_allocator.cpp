#include "prefix/block_allocator.h"

#include "base/check.h"

namespace reprise {

BlockAllocator::BlockAllocator(int block_count)
    : references_(static_cast<std::size_t>(block_count), 0),
      indexed_(static_cast<std::size_t>(block_count), false) {
  CHECK(block_count > 0, "a pool of {} blocks", block_count);
  free_.reserve(references_.size());
  for (BlockId id = block_count - 1; id >= 0; --id) free_.push_back(id);
}

std::optional<BlockId> BlockAllocator::allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId id = free_.back();
  free_.pop_back();
  references_[id] = 1;
  return id;
}

void BlockAllocator::retain(BlockId id) {
  CHECK(references(id) > 0, "block {} is free", id);
  count_cached(id, -1);
  ++references_[id];
  count_cached(id, +1);
}

void BlockAllocator::release(BlockId id) {
  CHECK(references(id) > 0, "block {} is free", id);
  count_cached(id, -1);
  if (--references_[id] == 0) {
    CHECK(!indexed_[id], "block {} left while the index names it", id);
    free_.push_back(id);
  }
  count_cached(id, +1);
}

void BlockAllocator::set_indexed(BlockId id, bool indexed) {
  CHECK(references(id) > 0 && indexed_[id] != indexed, "block {}", id);
  count_cached(id, -1);
  indexed_[id] = indexed;
  count_cached(id, +1);
}

int BlockAllocator::references(BlockId id) const {
  CHECK(id >= 0 && id < block_count(), "block {} of {}", id, block_count());
  return references_[id];
}

// Around each change of a block: out of the count before it, in after it.
void BlockAllocator::count_cached(BlockId id, int change) {
  if (indexed_[id] && references_[id] == 1) cached_count_ += change;
}

}  // namespace reprise
