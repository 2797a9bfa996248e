// An index for a model that can be resumed only where a snapshot was kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/limits.h"
#include "prefix/prefix_index.h"

namespace reprise {
namespace {

using Tokens = std::vector<TokenId>;

Tokens run_of(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tokens[i] = first + i;
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tokens first_of(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

class SnapshotsTest : public testing::Test {
 protected:
  // As a sequence that computed all of `tokens`, with snapshots at these
  // positions, and ended. Returns their slots.
  std::vector<SlotId> compute(const Tokens& tokens,
                              const std::vector<int>& positions) {
    std::vector<BlockId> blocks;
    const auto count = (tokens.size() + kBlockTokens - 1) / kBlockTokens;
    while (blocks.size() < count) {
      EXPECT_TRUE(index_.make_room(1));
      blocks.push_back(*allocator_.allocate());
    }
    index_.publish(tokens, blocks);
    std::vector<SlotId> taken;
    for (const int position : positions) {
      EXPECT_TRUE(index_.make_slot_room(1));
      taken.push_back(*slots_.allocate());
      EXPECT_TRUE(index_.keep_snapshot(
          std::span(tokens).first(static_cast<std::size_t>(position)),
          taken.back(), maker_++));
      slots_.release(taken.back());
    }
    for (const BlockId id : blocks) allocator_.release(id);
    index_.check_books();
    return taken;
  }

  PrefixHit hit_of(const Tokens& prompt) {
    auto hit = index_.acquire(prompt, static_cast<int>(prompt.size()));
    for (const BlockId id : hit.blocks) allocator_.release(id);
    if (hit.slot) slots_.release(*hit.slot);
    return hit;
  }

  RequestId maker_ = 1;  // another one for each snapshot
  BlockAllocator allocator_{24};
  BlockAllocator slots_{6};
  PrefixIndex index_{allocator_, &slots_};
};

TEST_F(SnapshotsTest, AHitEndsAtTheLastSnapshotOfThePrompt) {
  const Tokens tokens = run_of(0, 700);
  const auto slots = compute(tokens, {64, 256, 300, 700});
  const auto whole = hit_of(tokens);
  EXPECT_EQ(whole.tokens, 700);
  EXPECT_EQ(whole.slot, slots[3]);
  EXPECT_EQ(whole.blocks.size(), 3u);
  EXPECT_EQ(whole.miss_reason, MissReason::none);

  const auto shorter = hit_of(first_of(tokens, 699));
  EXPECT_EQ(shorter.tokens, 300);
  EXPECT_EQ(shorter.matched, 699);
  EXPECT_EQ(shorter.slot, slots[2]);
  EXPECT_EQ(shorter.blocks.size(), 2u);
  EXPECT_EQ(shorter.miss_reason, MissReason::no_snapshot);
  EXPECT_EQ(shorter.miss_position, 300);

  EXPECT_EQ(hit_of(first_of(tokens, 256)).slot, slots[1]);
  const auto nothing = hit_of(first_of(tokens, 63));
  EXPECT_EQ(nothing.tokens, 0);
  EXPECT_FALSE(nothing.slot);
  EXPECT_TRUE(nothing.blocks.empty());
  EXPECT_EQ(nothing.matched, 63);
}

// The prompt's nearest block is another chain's; the snapshot belongs to what
// both share.
TEST_F(SnapshotsTest, ASnapshotServesAllWhoShareItsTokens) {
  const Tokens shared = run_of(1000, 100);
  compute(shared + run_of(0, 100), {80});
  compute(shared + run_of(500, 100), {});
  const auto hit = hit_of(shared + run_of(500, 60));
  EXPECT_EQ(hit.tokens, 80);
  EXPECT_EQ(hit.matched, 160);
}

TEST_F(SnapshotsTest, WithoutRowsThereIsNoSnapshot) {
  const Tokens tokens = run_of(0, 300);
  compute(first_of(tokens, 200), {});
  const SlotId slot = *slots_.allocate();
  EXPECT_FALSE(index_.keep_snapshot(tokens, slot, 1));
  EXPECT_TRUE(index_.keep_snapshot(std::span(tokens).first(200), slot, 1));
  const SlotId again = *slots_.allocate();
  EXPECT_TRUE(index_.keep_snapshot(std::span(tokens).first(200), again, 1));
  EXPECT_FALSE(index_.holds_snapshot(again)) << "one is enough";
  slots_.release(again);
  slots_.release(slot);
  EXPECT_EQ(slots_.cached_count(), 1);
  index_.check_books();
}

TEST_F(SnapshotsTest, ALongerTailKeepsTheSnapshotsOfTheShorter) {
  const Tokens tokens = run_of(0, 200);
  compute(first_of(tokens, 100), {64, 100});
  compute(tokens, {200});
  EXPECT_EQ(index_.cached_count(), 1);
  EXPECT_EQ(hit_of(first_of(tokens, 150)).tokens, 100);
  EXPECT_EQ(hit_of(first_of(tokens, 99)).tokens, 64);
}

TEST_F(SnapshotsTest, WhatALaterOneSupersedesGoesFirst) {
  const Tokens chat = run_of(0, 600);
  compute(chat, {128, 256, 400, 600});
  const Tokens other = run_of(5000, 90);
  compute(other, {64, 90});  // all six slots are taken
  ASSERT_EQ(hit_of(first_of(chat, 130)).tokens, 128) << "touched last";
  EXPECT_TRUE(index_.make_slot_room(3));
  // 256 and 400 and 128 are superseded by 600, 64 by 90.
  EXPECT_EQ(hit_of(chat).tokens, 600);
  EXPECT_EQ(hit_of(other).tokens, 90);
  EXPECT_EQ(hit_of(first_of(chat, 130)).tokens, 128) << "used after the others";
  EXPECT_EQ(index_.snapshot_evictions(), 3u);
  index_.check_books();
}

TEST_F(SnapshotsTest, WhatOneMakerKeptStaysTogether) {
  const Tokens tokens = run_of(0, 300);
  std::vector<BlockId> blocks = {*allocator_.allocate(),
                                 *allocator_.allocate()};
  compute(run_of(5000, 10), {10});
  index_.publish(tokens, blocks);
  for (const std::size_t position : {128, 200, 300}) {
    const SlotId slot = *slots_.allocate();
    ASSERT_TRUE(
        index_.keep_snapshot(std::span(tokens).first(position), slot, 77));
    slots_.release(slot);
  }
  for (const BlockId id : blocks) allocator_.release(id);
  ASSERT_TRUE(index_.make_slot_room(3));
  EXPECT_EQ(hit_of(run_of(5000, 10)).tokens, 0) << "the longest unused";
  EXPECT_EQ(hit_of(first_of(tokens, 199)).tokens, 128);
}

TEST_F(SnapshotsTest, WhereChainsPartASnapshotIsWorthKeeping) {
  const Tokens system = run_of(1000, 300);
  const Tokens a = system + run_of(0, 100), b = system + run_of(500, 100);
  compute(a, {300, 400});
  compute(b, {350, 400});
  ASSERT_EQ(hit_of(a).tokens, 400);
  EXPECT_TRUE(index_.make_slot_room(3));
  EXPECT_EQ(hit_of(first_of(b, 399)).tokens, 300) << "350 went";
  EXPECT_EQ(hit_of(b).tokens, 400);
}

TEST_F(SnapshotsTest, OneInFourThousandStays) {
  BlockAllocator many(40);
  PrefixIndex index(many, &slots_);
  const Tokens tokens = run_of(0, 9000);
  std::vector<BlockId> blocks;
  while (blocks.size() < 36) blocks.push_back(*many.allocate());
  index.publish(tokens, blocks);
  for (const int position : {1024, 4032, 5000, 8128, 9000}) {
    const SlotId slot = *slots_.allocate();
    ASSERT_TRUE(index.keep_snapshot(
        std::span(tokens).first(static_cast<std::size_t>(position)), slot,
        static_cast<RequestId>(position)));
    slots_.release(slot);
  }
  ASSERT_TRUE(index.make_slot_room(3));
  for (const BlockId id : blocks) many.release(id);
  EXPECT_EQ(index.lookup(tokens, 4500), 4032);
  EXPECT_EQ(index.lookup(tokens, 8500), 8128);
  EXPECT_EQ(index.lookup(tokens, 9000), 9000);
}

TEST_F(SnapshotsTest, AHeldSnapshotIsNotGivenUp) {
  const Tokens tokens = run_of(0, 600);
  compute(tokens, {100, 200, 300, 400, 500, 600});
  const auto held = index_.acquire(tokens, 450);
  ASSERT_EQ(held.tokens, 400);
  EXPECT_FALSE(index_.make_slot_room(6));
  EXPECT_TRUE(index_.holds_snapshot(*held.slot));
  EXPECT_EQ(slots_.free_count(), 5);
  slots_.release(*held.slot);
  for (const BlockId id : held.blocks) allocator_.release(id);
  index_.check_books();
}

TEST_F(SnapshotsTest, EvictedRowsTakeTheirSnapshotsAlong) {
  compute(run_of(0, 600), {256, 600});
  EXPECT_TRUE(index_.make_room(23));
  EXPECT_EQ(slots_.free_count(), 5) << "the one at 256 is still there";
  EXPECT_EQ(hit_of(run_of(0, 600)).tokens, 256);
  EXPECT_TRUE(index_.make_room(24));
  EXPECT_EQ(slots_.free_count(), 6);
  index_.check_books();
}

TEST_F(SnapshotsTest, ABlockThatNoSnapshotNeedsGoesFirst) {
  compute(run_of(0, 256), {256});
  compute(run_of(5000, 256), {});
  ASSERT_EQ(hit_of(run_of(5000, 256)).matched, 256);
  EXPECT_TRUE(index_.make_room(23));
  EXPECT_EQ(hit_of(run_of(0, 256)).tokens, 256);
}

// Random chains over few tokens, against a list of what was kept.
TEST_F(SnapshotsTest, RandomChainsHitWhatIsThere) {
  std::mt19937 random(7);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  std::vector<Tokens> texts;
  for (int round = 0; round < 400; ++round) {
    Tokens text;
    if (!texts.empty() && between(0, 3) > 0) {
      text = texts[static_cast<std::size_t>(
          between(0, static_cast<int>(texts.size()) - 1))];
      text.resize(
          static_cast<std::size_t>(between(1, static_cast<int>(text.size()))));
    }
    for (int i = between(1, 300); i > 0; --i) text.push_back(between(0, 1));
    text.resize(std::min<std::size_t>(text.size(), 1000));
    std::vector<int> positions;
    for (int i = between(0, 3); i > 0; --i)
      positions.push_back(between(1, static_cast<int>(text.size())));
    compute(text, positions);
    texts.push_back(text);

    const auto hit = index_.acquire(text, static_cast<int>(text.size()));
    EXPECT_LE(hit.tokens, hit.matched);
    EXPECT_EQ(hit.slot.has_value(), hit.tokens > 0);
    EXPECT_EQ(static_cast<int>(hit.blocks.size()),
              (hit.tokens + kBlockTokens - 1) / kBlockTokens);
    if (!positions.empty()) {
      EXPECT_GE(hit.tokens,
                *std::max_element(positions.begin(), positions.end()))
          << round << " matched " << hit.matched << " of " << text.size()
          << " positions " << testing::PrintToString(positions);
    }
    for (const BlockId id : hit.blocks) allocator_.release(id);
    if (hit.slot) slots_.release(*hit.slot);
    index_.check_books();
    EXPECT_EQ(slots_.free_count() + slots_.cached_count(), 6);
    EXPECT_EQ(allocator_.free_count() + allocator_.cached_count(), 24);
  }
}

}  // namespace
}  // namespace reprise
