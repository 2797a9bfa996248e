#include "scheduler/admission.h"

#include <gtest/gtest.h>

#include <numeric>

namespace reprise {
namespace {

std::vector<TokenId> run_of(TokenId first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

SequencePtr sequence_of(RequestId id, std::vector<TokenId> tokens) {
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->prompt_size = static_cast<int>(tokens.size());
  s->goal = s->prompt_size;
  s->tokens = std::move(tokens);
  s->request.max_tokens = 1000;
  return s;
}

TEST(CheckRequest, NamesBothNumbers) {
  const SchedulerLimits limits = {.context_tokens = 1000, .block_count = 3};
  Request request;
  EXPECT_EQ(check_request(request, limits).error().kind, ErrorKind::invalid);
  request.prompt = run_of(0, 700);
  request.max_tokens = -1;
  EXPECT_EQ(check_request(request, limits).error().subject, "max_tokens");
  request.max_tokens = 0;
  EXPECT_TRUE(check_request(request, limits));
  request.max_tokens = 301;
  const auto context = check_request(request, limits);
  EXPECT_EQ(context.error().kind, ErrorKind::too_large);
  EXPECT_NE(context.error().message.find("1001"), std::string::npos);
  EXPECT_NE(context.error().message.find("1000"), std::string::npos);
  request.max_tokens = 70;  // 769 rows
  const auto pool = check_request(request, limits);
  EXPECT_EQ(pool.error().kind, ErrorKind::too_large);
  EXPECT_NE(pool.error().message.find("4 blocks"), std::string::npos);
  request.max_tokens = 69;
  EXPECT_TRUE(check_request(request, limits));
  request.max_tokens = std::numeric_limits<int>::max();
  EXPECT_FALSE(check_request(request, limits)) << "no overflow";
}

TEST(RowsCounted, IsThePromptAnd256TokensOfReply) {
  auto s = sequence_of(1, run_of(0, 100));
  EXPECT_EQ(rows_counted(*s), 100 + 256 - 1);
  s->request.max_tokens = 5;
  EXPECT_EQ(rows_counted(*s), 104);
  s->tokens.push_back(7);
  EXPECT_EQ(rows_counted(*s), 104);
}

class HeldBack : public testing::Test {
 protected:
  HeldBack() { running_.push_back(sequence_of(1, run_of(0, 1000))); }

  BlockAllocator allocator_{8};
  PrefixIndex index_{allocator_};
  std::vector<SequencePtr> running_;
};

TEST_F(HeldBack, OnlyForAQuantumOrMore) {
  auto little = run_of(0, 63);
  little.push_back(9999);
  EXPECT_FALSE(held_back(*sequence_of(2, little), running_, index_));
  EXPECT_TRUE(held_back(*sequence_of(3, run_of(0, 65)), running_, index_));
  EXPECT_FALSE(held_back(*sequence_of(4, run_of(0, 64)), running_, index_))
      << "its last token is evaluated in any case";
}

TEST_F(HeldBack, OnlyForWhatTheIndexHasNot) {
  auto waiting = sequence_of(2, run_of(0, 300));
  EXPECT_TRUE(held_back(*waiting, running_, index_));
  std::vector<BlockId> blocks = {*allocator_.allocate()};
  index_.publish(run_of(0, 256), blocks);
  EXPECT_FALSE(held_back(*waiting, running_, index_));
  allocator_.release(blocks[0]);
}

TEST_F(HeldBack, OnlyWhileThatPrefillRunsAndCaches) {
  const auto waiting = sequence_of(2, run_of(0, 300));
  running_[0]->request.cache_prompt = false;
  EXPECT_FALSE(held_back(*waiting, running_, index_));
  running_[0]->request.cache_prompt = true;
  EXPECT_TRUE(held_back(*waiting, running_, index_));
  running_[0]->length = 1000;
  EXPECT_FALSE(held_back(*waiting, running_, index_));
  waiting->request.cache_prompt = false;
  running_[0]->length = 0;
  EXPECT_FALSE(held_back(*waiting, running_, index_));
}

TEST_F(HeldBack, NeverTwiceForAsMuch) {
  auto waiting = sequence_of(2, run_of(0, 900));
  auto shorter = run_of(0, 400);
  shorter.push_back(9999);
  running_[0] = sequence_of(1, shorter);
  EXPECT_TRUE(held_back(*waiting, running_, index_));
  running_[0] = sequence_of(5, shorter);
  EXPECT_FALSE(held_back(*waiting, running_, index_))
      << "the first was cancelled, another one comes with the same";
  running_[0] = sequence_of(6, run_of(0, 500));
  EXPECT_TRUE(held_back(*waiting, running_, index_)) << "this one has more";
}

TEST(TailWanted, OnlyIfTheTailIsWorthIt) {
  auto owner = sequence_of(1, run_of(0, 400));
  owner->length = 400;
  auto divergent = run_of(0, 300);
  divergent.push_back(9999);
  const auto little = sequence_of(2, divergent);
  const auto much = sequence_of(3, run_of(0, 350));
  EXPECT_FALSE(tail_wanted(*owner, std::vector<const Sequence*>{}));
  EXPECT_FALSE(tail_wanted(*owner, std::vector<const Sequence*>{little.get()}));
  EXPECT_TRUE(tail_wanted(
      *owner, std::vector<const Sequence*>{little.get(), much.get()}));
}

}  // namespace
}  // namespace reprise
