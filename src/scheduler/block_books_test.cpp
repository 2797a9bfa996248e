#include "scheduler/block_books.h"

#include <gtest/gtest.h>

#include <numeric>

namespace reprise {
namespace {

std::vector<TokenId> run_of(TokenId first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Sequence sequence_of(RequestId id, std::vector<TokenId> tokens) {
  Sequence s;
  s.id = id;
  s.prompt_size = static_cast<int>(tokens.size());
  s.tokens = std::move(tokens);
  s.goal = s.prompt_size;
  s.request.max_tokens = 1;
  s.rows_promised = s.prompt_size;
  return s;
}

void compute(BlockBooks& books, Sequence& s, int end) {
  Reservation reservation;
  ASSERT_TRUE(books.reserve(s, end, reservation));
  books.commit(s, reservation, end);
}

// Computes all of `tokens` as a request that ends.
void compute_all(BlockBooks& books, std::vector<TokenId> tokens) {
  Sequence s = sequence_of(99, std::move(tokens));
  ASSERT_TRUE(books.admit(s, 0, true).admitted);
  compute(books, s, s.size());
  books.leave(s, BlockBooks::Leave::published);
}

TEST(BlockBooks, AHitInsideABlockIsCopiedBeforeItIsWrittenTo) {
  BlockBooks books(8, 0);
  compute_all(books, run_of(0, 300));
  auto tokens = run_of(0, 280);
  tokens.push_back(9999);
  Sequence s = sequence_of(1, tokens);
  EXPECT_EQ(books.admit(s, 0, false).hit.tokens, 280);
  const BlockId shared = s.blocks[1];
  Reservation r;
  ASSERT_TRUE(books.reserve(s, 281, r));
  const auto copy = books.copy_of(s, r);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, shared);
  EXPECT_EQ(copy->to, s.blocks[1]);
  EXPECT_EQ(copy->rows, 24);
  EXPECT_EQ(books.allocator().references(shared), 2)
      << "kept until the copy is made";
  books.commit(s, r, 281);
  EXPECT_EQ(books.allocator().references(shared), 1);
  books.check({&s});
  books.leave(s, BlockBooks::Leave::published);
  books.check({});
}

TEST(BlockBooks, UndoPutsBackWhatReserveTook) {
  BlockBooks books(8, 0);
  compute_all(books, run_of(0, 300));
  auto tokens = run_of(0, 280);
  for (const TokenId token : run_of(9000, 500)) tokens.push_back(token);
  Sequence s = sequence_of(1, tokens);
  ASSERT_TRUE(books.admit(s, 0, false).admitted);
  const auto blocks = s.blocks;
  const auto spare = s.spare;
  const int free = books.allocator().free_count();
  Reservation r;
  ASSERT_TRUE(books.reserve(s, 700, r));
  EXPECT_NE(s.blocks, blocks);
  books.undo(s, r);
  EXPECT_EQ(s.blocks, blocks);
  EXPECT_EQ(s.spare, spare);
  EXPECT_EQ(books.allocator().free_count(), free);
  books.check({&s});
}

TEST(BlockBooks, AReservationEndsAtABlockWhereThePoolEnds) {
  BlockBooks books(3, 0);
  Sequence other = sequence_of(1, run_of(5000, 256));
  ASSERT_TRUE(books.admit(other, 0, true).admitted);
  compute(books, other, 256);
  Sequence s = sequence_of(2, run_of(0, 700));
  ASSERT_TRUE(books.admit(s, 0, true).admitted);
  Reservation r;
  EXPECT_FALSE(books.reserve(s, 700, r));
  EXPECT_EQ(r.end, 512);
  books.leave(other, BlockBooks::Leave::published);
  EXPECT_TRUE(books.reserve(s, 700, r)) << "now there is one to evict";
  EXPECT_EQ(r.taken.size(), 3u);
  books.commit(s, r, 700);
  books.check({&s});
}

TEST(BlockBooks, AdmissionLeavesToOthersWhatTheyWerePromised) {
  BlockBooks books(6, 0);
  Sequence first = sequence_of(1, run_of(0, 1000));
  ASSERT_TRUE(books.admit(first, 0, true).admitted);
  EXPECT_EQ(books.outstanding(first), 3) << "four, one of them spare";
  Sequence second = sequence_of(2, run_of(5000, 600));
  EXPECT_FALSE(books.admit(second, books.outstanding(first), false).admitted);
  EXPECT_TRUE(second.blocks.empty() && second.spare.empty());
  second = sequence_of(2, run_of(5000, 500));
  EXPECT_TRUE(books.admit(second, books.outstanding(first), false).admitted);
  books.check({&first, &second});
}

TEST(BlockBooks, ATailSharedOnDemandIsCopiedByItsOwner) {
  BlockBooks books(4, 0);
  Sequence owner = sequence_of(1, run_of(0, 101));
  ASSERT_TRUE(books.admit(owner, 0, true).admitted);
  compute(books, owner, 100);
  const BlockId tail = owner.blocks[0];
  ASSERT_TRUE(books.publish_tail(owner));
  Sequence reader = sequence_of(2, run_of(0, 90));
  EXPECT_EQ(books.admit(reader, 0, false).hit.tokens, 89);
  Reservation r;
  ASSERT_TRUE(books.reserve(owner, 101, r));
  ASSERT_TRUE(books.copy_of(owner, r));
  EXPECT_NE(owner.blocks[0], tail);
  books.commit(owner, r, 101);
  EXPECT_EQ(reader.blocks[0], tail);
  books.check({&owner, &reader});
}

TEST(BlockBooks, ATailIsNotSharedWithoutABlockForItsOwner) {
  BlockBooks books(1, 0);
  Sequence owner = sequence_of(1, run_of(0, 101));
  ASSERT_TRUE(books.admit(owner, 0, true).admitted);
  compute(books, owner, 100);
  EXPECT_FALSE(books.publish_tail(owner));
  compute(books, owner, 101);
  books.check({&owner});
}

TEST(BlockBooks, APoolWithoutRoomForACopyGivesTheBlockItself) {
  BlockBooks books(1, 0);
  compute_all(books, run_of(0, 100));
  Sequence s = sequence_of(1, run_of(0, 200));
  EXPECT_EQ(books.admit(s, 0, true).hit.tokens, 100);
  Reservation r;
  EXPECT_FALSE(books.reserve(s, 200, r));
  EXPECT_EQ(r.end, 100);
  ASSERT_TRUE(books.reclaim_tail(s));
  ASSERT_TRUE(books.reserve(s, 200, r));
  EXPECT_FALSE(books.copy_of(s, r));
  books.commit(s, r, 200);
  books.check({&s});
}

TEST(BlockBooks, WhatIsDistrustedLeavesTheIndexWithItsOwner) {
  BlockBooks books(8, 0);
  Sequence s = sequence_of(1, run_of(0, 600));
  ASSERT_TRUE(books.admit(s, 0, true).admitted);
  compute(books, s, 600);
  EXPECT_EQ(books.index().cached_count(), 2);
  books.leave(s, BlockBooks::Leave::distrusted);
  EXPECT_EQ(books.index().cached_count(), 0);
  EXPECT_EQ(books.allocator().free_count(), 8);
}

}  // namespace
}  // namespace reprise
