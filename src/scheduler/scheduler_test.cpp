#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/limits.h"

namespace reprise {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<TokenId>;

Tokens run_of(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Request request_of(Tokens prompt, int max_tokens, bool cache = true) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.cache_prompt = cache;
  return request;
}

// Plays the engine: each token of a reply is 1000 + its position.
class SchedulerTest : public testing::Test {
 protected:
  void start(SchedulerLimits limits) {
    if (limits.context_tokens == 0) limits.context_tokens = 100'000;
    scheduler_ = std::make_unique<Scheduler>(limits);
  }

  StepPlan plan() {
    auto plan = scheduler_->plan();
    EXPECT_TRUE(plan);
    return plan.value_or(StepPlan{});
  }

  void apply(const StepPlan& plan) {
    StepOutput output;
    for (const auto& row : plan.rows) {
      output.rows.emplace_back();
      if (row.logits_wanted > 0)
        output.rows.back().token = SampledToken{1000 + end_of(row)};
    }
    scheduler_->apply(std::move(output));
    collect();
  }

  void collect() {
    for (const auto& event : scheduler_->take_events()) {
      if (const auto* token = std::get_if<SampledToken>(&event.what))
        replies_[event.id].push_back(token->id);
      else
        finishes_[event.id] = std::get<Finish>(event.what);
    }
    scheduler_->check_books();
  }

  StepPlan step() {
    auto the_plan = plan();
    apply(the_plan);
    return the_plan;
  }

  void run() {
    while (auto plan = scheduler_->plan()) apply(*plan);
    scheduler_->check_books();
  }

  // A second time at the same place: it was no chance.
  void fail_twice(RequestId id) {
    for (int i = 0; i < 2; ++i) {
      plan();
      scheduler_->fail(id, "not a number");
      collect();
    }
  }

  static const StepRow* row_of(const StepPlan& plan, RequestId id) {
    for (const auto& row : plan.rows)
      if (row.id == id) return &row;
    return nullptr;
  }

  static int end_of(const StepRow& row) {
    return row.start + static_cast<int>(row.tokens.size());
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::map<RequestId, Tokens> replies_;
  std::map<RequestId, Finish> finishes_;
};

TEST_F(SchedulerTest, APromptIsCutAtQuantaAndAReplyIsAToken) {
  start({.block_count = 8});
  const auto prompt = run_of(0, 700);
  ASSERT_TRUE(scheduler_->add(1, request_of(prompt, 3)));
  const auto first = step();
  ASSERT_EQ(first.rows.size(), 1u);
  EXPECT_EQ(first.rows[0].start, 0);
  EXPECT_EQ(first.rows[0].tokens, run_of(0, 512));
  EXPECT_EQ(first.rows[0].blocks.size(), 2u);
  EXPECT_EQ(first.rows[0].logits_wanted, 0);
  const auto second = step();
  EXPECT_EQ(second.rows[0].tokens, run_of(512, 188));
  EXPECT_EQ(second.rows[0].logits_wanted, 1);
  EXPECT_EQ(step().rows[0].tokens, (Tokens{1700}));
  EXPECT_EQ(step().rows[0].start, 701);
  EXPECT_THAT(replies_[1], ElementsAre(1700, 1701, 1702));
  EXPECT_EQ(finishes_[1].reason, FinishReason::length);
  EXPECT_FALSE(scheduler_->plan());
  EXPECT_TRUE(scheduler_->idle());
  EXPECT_EQ(scheduler_->status().blocks_cached, 3);
  EXPECT_EQ(scheduler_->status().evaluated_tokens, 702u);
}

TEST_F(SchedulerTest, StopTokensEndAReplyAndBelongToIt) {
  start({.block_count = 8});
  auto request = request_of(run_of(0, 10), 100);
  request.stop_tokens = {5, 1012};
  ASSERT_TRUE(scheduler_->add(1, request));
  run();
  EXPECT_THAT(replies_[1], ElementsAre(1010, 1011, 1012));
  EXPECT_EQ(finishes_[1].reason, FinishReason::stop);
}

TEST_F(SchedulerTest, TheNextTurnEvaluatesOnlyWhatIsNew) {
  start({.block_count = 8});
  const auto prompt = run_of(0, 300);
  ASSERT_TRUE(scheduler_->add(1, request_of(prompt, 20)));
  run();
  // The last reply token has no row: it is evaluated with the new ones.
  const auto next = prompt + replies_[1] + run_of(5000, 30);
  ASSERT_TRUE(scheduler_->add(2, request_of(next, 1)));
  const auto plan = step();
  EXPECT_EQ(plan.rows[0].start, 319);
  EXPECT_EQ(plan.rows[0].tokens.size(), 31u);
  ASSERT_EQ(plan.copies.size(), 1u);
  EXPECT_EQ(plan.copies[0].rows, 319 - 256);
  EXPECT_EQ(plan.copies[0].to, plan.rows[0].blocks[1]);
  EXPECT_NE(plan.copies[0].from, plan.copies[0].to);
  EXPECT_EQ(finishes_[2].cache.memory_tokens, 319);
  EXPECT_EQ(finishes_[2].cache.evaluated_tokens, 31);
  EXPECT_EQ(finishes_[2].cache.miss_reason, MissReason::diverged);
  EXPECT_EQ(finishes_[2].cache.miss_position, 319);
}

TEST_F(SchedulerTest, AnExactRepeatEvaluatesOneToken) {
  start({.block_count = 8});
  for (RequestId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(scheduler_->add(id, request_of(run_of(0, 512), 4)));
    run();
  }
  EXPECT_EQ(finishes_[2].cache.memory_tokens, 511);
  EXPECT_EQ(finishes_[2].cache.evaluated_tokens, 1);
  EXPECT_EQ(finishes_[2].cache.miss_reason, MissReason::none);
  EXPECT_EQ(replies_[1], replies_[2]);
}

TEST_F(SchedulerTest, WithoutCacheNothingIsReadAndNothingKept) {
  start({.block_count = 8});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 600), 4, false)));
  run();
  EXPECT_EQ(scheduler_->status().blocks_free, 8);
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(0, 600), 4)));
  run();
  ASSERT_TRUE(scheduler_->add(3, request_of(run_of(0, 600), 4, false)));
  run();
  EXPECT_EQ(finishes_[2].cache.memory_tokens, 0);
  EXPECT_EQ(finishes_[3].cache.memory_tokens, 0);
  EXPECT_EQ(finishes_[3].cache.evaluated_tokens, 600);
  EXPECT_EQ(finishes_[3].cache.miss_reason, MissReason::disabled);
}

TEST_F(SchedulerTest, WhoeverDecodesGoesOnBesideAForeignPrefill) {
  start({.block_count = 40});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 10), 50)));
  step();
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(5000, 3000), 50)));
  for (int i = 0; i < 10; ++i) {
    const auto plan = step();
    ASSERT_NE(row_of(plan, 1), nullptr);
    EXPECT_EQ(row_of(plan, 1)->tokens.size(), 1u);
    EXPECT_EQ(row_of(plan, 2)->tokens.size(), 128u);
  }
}

TEST_F(SchedulerTest, AShortPromptDoesNotWaitForALongOne) {
  start({.block_count = 200});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 30'000), 5)));
  step();
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(50'000, 500), 5)));
  int steps = 0;
  while (!finishes_.contains(2)) {
    const auto plan = step();
    const auto* oldest = row_of(plan, 1);
    ASSERT_NE(oldest, nullptr);
    EXPECT_GE(oldest->tokens.size(), 64u);
    ++steps;
  }
  EXPECT_LE(steps, 2 + 5);
  EXPECT_FALSE(finishes_.contains(1));
}

TEST_F(SchedulerTest, FourAgentsComputeTheirCommonPromptOnce) {
  start({.parallel = 4, .block_count = 64});
  const auto system = run_of(0, 1000);
  for (RequestId id = 1; id <= 4; ++id)
    ASSERT_TRUE(scheduler_->add(
        id,
        request_of(system + run_of(10'000 * static_cast<int>(id), 50), 40)));
  run();
  EXPECT_EQ(finishes_[1].cache.evaluated_tokens, 1050);
  for (RequestId id = 2; id <= 4; ++id) {
    EXPECT_EQ(finishes_[id].cache.memory_tokens, 1000);
    EXPECT_EQ(finishes_[id].cache.evaluated_tokens, 50);
  }
}

TEST_F(SchedulerTest, AWaitForAPrefixEndsWithWhomeverComputesIt) {
  const auto system = run_of(0, 3000);
  for (const bool failed : {false, true}) {
    start({.parallel = 4, .block_count = 64});
    ASSERT_TRUE(scheduler_->add(1, request_of(system + run_of(9000, 5), 5)));
    ASSERT_TRUE(scheduler_->add(2, request_of(system + run_of(8000, 5), 5)));
    ASSERT_TRUE(scheduler_->add(3, request_of(run_of(50'000, 70), 5)));
    auto first = plan();
    EXPECT_NE(row_of(first, 1), nullptr);
    EXPECT_EQ(row_of(first, 2), nullptr) << "it waits for the first";
    EXPECT_NE(row_of(first, 3), nullptr) << "others may go ahead";
    apply(first);
    if (failed) {
      fail_twice(1);
    } else {
      scheduler_->cancel(1);
    }
    EXPECT_NE(row_of(plan(), 2), nullptr);
    scheduler_->fail(std::nullopt, "not run");
    run();
    EXPECT_EQ(finishes_[2].reason, FinishReason::length);
    EXPECT_EQ(finishes_[2].cache.memory_tokens > 0, !failed);
  }
}

TEST_F(SchedulerTest, AdmissionCountsThePromptAnd256TokensOfReply) {
  start({.parallel = 4, .block_count = 4});
  // 300 + 255 rows: three blocks. The second needs one, and then two.
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 300), 700)));
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(5000, 100), 158)));
  ASSERT_TRUE(scheduler_->add(3, request_of(run_of(6000, 100), 157)));
  step();
  EXPECT_EQ(scheduler_->status().running, 1)
      << "257 rows do not fit, and nobody overtakes";
  EXPECT_EQ(scheduler_->status().waiting, 2);
  scheduler_->cancel(2);
  step();
  EXPECT_EQ(scheduler_->status().running, 2) << "256 rows fit";
}

TEST_F(SchedulerTest, AdmissionEvictsWhatIsCached) {
  start({.block_count = 4});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 700), 4)));
  run();
  EXPECT_EQ(scheduler_->status().blocks_cached, 3);
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(5000, 700), 4)));
  run();
  EXPECT_EQ(scheduler_->status().blocks_evicted, 2u);
  ASSERT_TRUE(scheduler_->add(3, request_of(run_of(0, 700), 4)));
  run();
  EXPECT_EQ(finishes_[3].cache.memory_tokens, 256);
  EXPECT_EQ(finishes_[3].cache.miss_reason, MissReason::evicted);
  EXPECT_EQ(finishes_[3].cache.miss_position, 256);
}

TEST_F(SchedulerTest, TheYoungestMakesRoomAndItsClientSeesOnlyAPause) {
  start({.parallel = 2, .block_count = 8});
  // Both are let in with 256 reply tokens, and go far beyond.
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 300), 1500)));
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(5000, 300), 1500)));
  run();
  EXPECT_GE(scheduler_->status().preemptions, 1u);
  for (RequestId id = 1; id <= 2; ++id) {
    EXPECT_EQ(replies_[id], run_of(1300, 1500));
    EXPECT_EQ(finishes_[id].cache.evaluated_tokens, 300);
    EXPECT_EQ(finishes_[id].cache.memory_tokens, 0);
  }
  EXPECT_THAT(scheduler_->take_admitted(), ElementsAre(1, 2))
      << "coming back is not being admitted";
}

TEST_F(SchedulerTest, NobodyIsPreemptedBeforeAQuantumOfProgress) {
  start({.parallel = 4, .block_count = 5});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 250), 700)));
  while (replies_[1].size() < 258) step();
  // Three young ones take the last blocks just before the oldest, beyond its
  // 256 tokens by now, needs its third.
  for (RequestId id = 2; id <= 4; ++id)
    ASSERT_TRUE(scheduler_->add(
        id, request_of(run_of(5000 * static_cast<int>(id), 10), 200)));
  int sat_out = 0;
  while (scheduler_->status().preemptions == 0)
    sat_out += row_of(step(), 1) == nullptr ? 1 : 0;
  EXPECT_GT(sat_out, 40);
  EXPECT_GE(replies_[4].size() + 10, 64u);
  run();
  EXPECT_EQ(replies_[1], run_of(1250, 700));
  for (RequestId id = 2; id <= 4; ++id)
    EXPECT_EQ(replies_[id], run_of(1010, 200));
}

TEST_F(SchedulerTest, AFailedStepLeavesEverythingAsItWas) {
  start({.parallel = 4, .block_count = 16});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 400), 300)));
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(5000, 90), 300)));
  step();
  ASSERT_TRUE(scheduler_->add(3, request_of(run_of(0, 300), 300)));
  step();
  const auto before = scheduler_->status();
  const auto failed = plan();
  ASSERT_EQ(failed.rows.size(), 3u);
  scheduler_->fail(std::nullopt, "once");
  collect();
  const auto after = scheduler_->status();
  EXPECT_EQ(after.blocks_free, before.blocks_free);
  EXPECT_EQ(after.blocks_held, before.blocks_held);
  EXPECT_EQ(after.evaluated_tokens, before.evaluated_tokens);
  EXPECT_EQ(after.steps_failed, 1u);
  EXPECT_TRUE(finishes_.empty());

  // Each alone, from where it was.
  for (const auto& was : failed.rows) {
    EXPECT_TRUE(scheduler_->isolating());
    const auto alone = step();
    ASSERT_EQ(alone.rows.size(), 1u);
    EXPECT_EQ(alone.rows[0].id, was.id);
    EXPECT_EQ(alone.rows[0].start, was.start);
  }
  EXPECT_FALSE(scheduler_->isolating());
  EXPECT_EQ(step().rows.size(), 3u);
  run();
  EXPECT_EQ(replies_[1], run_of(1400, 300));
  EXPECT_EQ(replies_[2], run_of(1090, 300));
}

TEST_F(SchedulerTest, AFailedCopyIsGivenBackAndPlannedAgain) {
  start({.block_count = 8});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 100), 4)));
  ASSERT_TRUE(scheduler_->add(9, request_of(run_of(7000, 100), 40)));
  while (!finishes_.contains(1)) step();
  ASSERT_TRUE(
      scheduler_->add(2, request_of(run_of(0, 80) + run_of(900, 9), 4)));
  const auto first = plan();
  ASSERT_EQ(first.copies.size(), 1u);
  scheduler_->fail(std::nullopt, "once");
  collect();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(plan().rows[0].id, 9u) << "alone, and alone again";
    scheduler_->fail(std::nullopt, "a plan of one: its row is guilty");
    collect();
  }
  EXPECT_EQ(scheduler_->status().requests_started_over, 1u);
  const auto second = plan();
  ASSERT_EQ(second.copies.size(), 1u);
  EXPECT_EQ(second.copies[0].from, first.copies[0].from);
  EXPECT_EQ(second.copies[0].rows, 80);
  apply(second);
  run();
  EXPECT_EQ(replies_[2], run_of(1089, 4));
  EXPECT_EQ(replies_[9], run_of(1100, 40)) << "from nothing, and whole";
}

TEST_F(SchedulerTest, WhatAGuiltyRequestComputedIsNotUsedAgain) {
  start({.block_count = 16});
  const auto shared = run_of(0, 256);
  ASSERT_TRUE(scheduler_->add(1, request_of(shared + run_of(900, 9), 4)));
  run();
  const auto bad = shared + run_of(5000, 900);
  ASSERT_TRUE(scheduler_->add(2, request_of(bad, 4)));
  step();
  fail_twice(2);
  EXPECT_FALSE(finishes_.contains(2));
  step();
  fail_twice(2);
  EXPECT_EQ(finishes_[2].error, "not a number");
  ASSERT_TRUE(scheduler_->add(3, request_of(bad, 4)));
  run();
  EXPECT_EQ(finishes_[3].cache.memory_tokens, 256)
      << "what another one went on from is believed";
}

// What it used of the cache is at fault if it gets past that place without.
TEST_F(SchedulerTest, WhoStartsOverAndSucceedsBlamesTheCache) {
  start({.block_count = 32});
  const auto text = run_of(0, 600);
  ASSERT_TRUE(scheduler_->add(1, request_of(text, 4)));
  run();
  // A neighbour is built on the same rows.
  ASSERT_TRUE(scheduler_->add(2, request_of(text + run_of(900, 9), 400)));
  step();
  ASSERT_TRUE(scheduler_->add(3, request_of(text + run_of(700, 9), 4)));
  fail_twice(3);
  while (!finishes_.contains(3)) step();
  EXPECT_EQ(finishes_[3].reason, FinishReason::length);
  EXPECT_EQ(finishes_[3].cache.memory_tokens, 0);
  EXPECT_EQ(finishes_[3].cache.evaluated_tokens, 609);
  EXPECT_EQ(finishes_[3].cache.miss_reason, MissReason::corrupt);
  EXPECT_GE(scheduler_->status().blocks_quarantined, 3u);
  run();
  EXPECT_EQ(finishes_[2].reason, FinishReason::length) << "it goes on";
  EXPECT_EQ(scheduler_->status().blocks_cached, 0)
      << "and nobody gets what it was built on";
}

TEST_F(SchedulerTest, CancellingKeepsWhatIsCommitted) {
  start({.block_count = 16});
  ASSERT_TRUE(scheduler_->add(1, request_of(run_of(0, 1000), 4)));
  ASSERT_TRUE(scheduler_->add(2, request_of(run_of(0, 1000), 4)));
  step();
  EXPECT_TRUE(scheduler_->cancel(1));
  EXPECT_TRUE(scheduler_->cancel(2));
  EXPECT_FALSE(scheduler_->cancel(2));
  collect();
  EXPECT_EQ(finishes_[1].reason, FinishReason::cancelled);
  EXPECT_EQ(finishes_[1].cache.evaluated_tokens, 512);
  EXPECT_EQ(finishes_[2].cache.evaluated_tokens, 0);
  EXPECT_TRUE(scheduler_->idle());
  EXPECT_EQ(scheduler_->status().blocks_held, 0);
  ASSERT_TRUE(scheduler_->add(3, request_of(run_of(0, 1000), 4)));
  run();
  EXPECT_EQ(finishes_[3].cache.memory_tokens, 512);
}

TEST_F(SchedulerTest, TheQueueIsBounded) {
  start({.block_count = 16});
  for (RequestId id = 1; id <= kInboxRequestsMax; ++id)
    ASSERT_TRUE(scheduler_->add(id, request_of(run_of(0, 3), 1)));
  const auto refused = scheduler_->add(9999, request_of(run_of(0, 3), 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
}

}  // namespace
}  // namespace reprise
