#include "prefix/block_allocator.h"

#include <gtest/gtest.h>

#include <set>

namespace reprise {
namespace {

TEST(BlockAllocator, GivesEachBlockOnceAndThenNone) {
  BlockAllocator blocks(3);
  std::set<BlockId> seen;
  for (int i = 0; i < 3; ++i) seen.insert(*blocks.allocate());
  EXPECT_EQ(seen, (std::set<BlockId>{0, 1, 2}));
  EXPECT_FALSE(blocks.allocate());
  EXPECT_EQ(blocks.free_count(), 0);
}

TEST(BlockAllocator, ABlockIsFreeWhenItsLastHolderLetsGo) {
  BlockAllocator blocks(2);
  const BlockId id = *blocks.allocate();
  blocks.retain(id);
  blocks.release(id);
  EXPECT_EQ(blocks.references(id), 1);
  EXPECT_EQ(blocks.free_count(), 1);
  blocks.release(id);
  EXPECT_EQ(blocks.references(id), 0);
  EXPECT_EQ(*blocks.allocate(), id) << "warm pages first";
}

TEST(BlockAllocator, CountsWhatOnlyTheIndexHolds) {
  BlockAllocator blocks(2);
  const BlockId id = *blocks.allocate();
  EXPECT_EQ(blocks.cached_count(), 0);
  blocks.retain(id);
  blocks.set_indexed(id, true);
  EXPECT_EQ(blocks.cached_count(), 0);
  blocks.release(id);
  EXPECT_EQ(blocks.cached_count(), 1);
  blocks.retain(id);
  EXPECT_EQ(blocks.cached_count(), 0);
  blocks.release(id);
  blocks.set_indexed(id, false);
  EXPECT_EQ(blocks.cached_count(), 0);
}

TEST(BlockAllocatorDeathTest, RefusesToLoseTrack) {
  BlockAllocator blocks(2);
  EXPECT_DEATH(blocks.release(0), "block 0 is free");
  EXPECT_DEATH(blocks.retain(1), "block 1 is free");
  EXPECT_DEATH((void)blocks.references(2), "block 2 of 2");
  const BlockId id = *blocks.allocate();
  blocks.set_indexed(id, true);
  EXPECT_DEATH(blocks.release(id), "the index names it");
}

}  // namespace
}  // namespace reprise
