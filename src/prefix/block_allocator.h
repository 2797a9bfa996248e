// The blocks of one group of state families, by number. A block is 256
// tokens' rows of every layer; the memory itself is elsewhere
// (cache/block_pools.h), here are only the books: which ids are free and how
// many holders each of the others has. Slots of snapshots, each all that a
// model keeps at one length of a sequence besides its rows, have books of the
// same kind. Not thread-safe: the engine's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise {

using BlockId = std::int32_t;
using SlotId = BlockId;
inline constexpr SlotId kNoSlot = -1;

class BlockAllocator {
 public:
  explicit BlockAllocator(int block_count);

  // A free block with one reference, or nothing when all are taken.
  std::optional<BlockId> allocate();

  // A further holder of a taken block, and one holder less. The block is free
  // again when the last holder lets go.
  void retain(BlockId id);
  void release(BlockId id);

  // The prefix index marks the blocks that it holds a reference on, so that
  // "held by the index alone" is a number that is always at hand.
  void set_indexed(BlockId id, bool indexed);

  int references(BlockId id) const;
  int cached_count() const { return cached_count_; }  // by the index alone
  int free_count() const { return static_cast<int>(free_.size()); }
  int block_count() const { return static_cast<int>(references_.size()); }

 private:
  void count_cached(BlockId id, int change);

  std::vector<int> references_;  // by block id; 0: free
  std::vector<bool> indexed_;    // by block id
  int cached_count_ = 0;
  std::vector<BlockId> free_;  // last in, first out: warm pages first
};

}  // namespace reprise
