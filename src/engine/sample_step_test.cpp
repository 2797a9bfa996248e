#include "engine/sample_step.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>

#include "engine/fake_runner.h"
#include "sampling/sampler.h"

namespace reprise {
namespace {

constexpr int kVocabulary = 32;

class SampleStepTest : public testing::Test {
 protected:
  SampleStepTest()
      : scheduler_(std::make_unique<Scheduler>(limits(32))),
        runner_({.vocabulary = kVocabulary,
                 .block_count = 32,
                 .throws_at_step = {},
                 .throws_at_row = {},
                 .nan_logits = {},
                 .during_step = {}}) {}

  static SchedulerLimits limits(int blocks) {
    return {.parallel = 4, .context_tokens = 2000, .block_count = blocks};
  }

  RequestId add(Request request) {
    const RequestId id = ++last_id_;
    requests_[id] = request;
    EXPECT_TRUE(scheduler_->add(id, std::move(request)));
    return id;
  }

  static Request request_of(int prompt, int max_tokens) {
    Request request;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back((3 + i * 5) % kVocabulary);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }

  bool step() {
    const auto plan = scheduler_->plan();
    if (!plan) return false;
    for (const auto& row : plan->rows) {
      wanted_most_ = std::max(wanted_most_, row.logits_wanted);
      wanted_[row.id] += row.logits_wanted;
    }
    auto output = sample_step(*plan, runner_.run(*plan), *scheduler_);
    EXPECT_TRUE(output);
    if (!output) return false;
    scheduler_->apply(std::move(*output));
    for (auto& event : scheduler_->take_events()) {
      if (auto* token = std::get_if<SampledToken>(&event.what))
        replies_[event.id].push_back(*token);
      else if (auto* part = std::get_if<PromptLogprobs>(&event.what))
        scores_[event.id].push_back(*part);
      else
        finishes_[event.id] = std::get<Finish>(event.what);
    }
    scheduler_->check_books();
    return true;
  }

  void run() {
    while (step()) {
    }
  }

  // Every position's, as the model alone has them.
  void expect_scores(RequestId id) {
    const auto& prompt = requests_[id].prompt;
    int next = 1;
    for (const auto& part : scores_[id]) {
      ASSERT_EQ(part.start, next);
      for (const auto& token : part.tokens) {
        const auto logits = FakeRunner::logits_after(
            std::span(prompt).first(static_cast<std::size_t>(next)),
            kVocabulary);
        const int top = *requests_[id].prompt_logprobs;
        const auto want = logprobs_of(logits, prompt[next], top);
        EXPECT_EQ(token.logprob, want.logprob) << next;
        EXPECT_EQ(token.rank, want.rank) << next;
        ASSERT_EQ(static_cast<int>(token.top.size()), top);
        ++next;
      }
    }
    EXPECT_EQ(next, static_cast<int>(prompt.size()));
  }

  std::unique_ptr<Scheduler> scheduler_;
  FakeRunner runner_;
  RequestId last_id_ = 0;
  int wanted_most_ = 0;
  std::map<RequestId, int> wanted_;
  std::map<RequestId, Request> requests_;
  std::map<RequestId, std::vector<SampledToken>> replies_;
  std::map<RequestId, std::vector<PromptLogprobs>> scores_;
  std::map<RequestId, Finish> finishes_;
};

TEST_F(SampleStepTest, PromptLogprobsComeForEveryPositionOnce) {
  auto request = request_of(700, 3);
  request.prompt_logprobs = 2;
  const RequestId alone = add(request);
  run();
  expect_scores(alone);
  EXPECT_LE(wanted_most_, 64) << "a quantum of logits a step";
  EXPECT_EQ(replies_[alone].size(), 3u);

  // In a crowd, and with the prompt in the cache: it is evaluated again.
  const RequestId again = add(request);
  for (int i = 0; i < 3; ++i) add(request_of(90 + i, 20));
  run();
  expect_scores(again);
  EXPECT_EQ(finishes_[again].cache.memory_tokens, 0);
  EXPECT_EQ(finishes_[again].cache.evaluated_tokens, 700);
  EXPECT_EQ(finishes_[again].cache.miss_reason, MissReason::disabled);
  // Who does not ask for them reuses what they computed.
  const RequestId plain = add(request_of(700, 3));
  run();
  EXPECT_EQ(finishes_[plain].cache.memory_tokens, 699);
  EXPECT_TRUE(scores_[plain].empty());
}

TEST_F(SampleStepTest, NoReplyAtAll) {
  for (const int size : {1, 2, 64, 65, 300}) {
    auto request = request_of(size, 0);
    request.prompt_logprobs = 0;
    const RequestId id = add(request);
    run();
    expect_scores(id);
    EXPECT_TRUE(replies_[id].empty());
    EXPECT_EQ(finishes_[id].reason, FinishReason::length);
    EXPECT_EQ(finishes_[id].timings.predicted_n, 0);
  }
  const RequestId warm_up = add(request_of(310, 0));
  run();
  EXPECT_TRUE(replies_[warm_up].empty());
  const RequestId after = add(request_of(310, 2));
  run();
  EXPECT_EQ(finishes_[after].cache.memory_tokens, 309);
}

// What was said stays said, and the rest follows, when the sequence is set
// back: the pool is too small for all replies.
TEST_F(SampleStepTest, PreemptionLeavesNoGap) {
  scheduler_ = std::make_unique<Scheduler>(limits(6));
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) {
    auto request = request_of(200 + 60 * i, 400);
    request.prompt[0] = i;
    request.prompt_logprobs = 1;
    ids.push_back(add(request));
  }
  run();
  EXPECT_GT(scheduler_->status().preemptions, 0u);
  for (const RequestId id : ids) expect_scores(id);
}

// Set back in the middle of its prompt, and then its blocks are evicted: what
// it said is evaluated again, and not said again.
TEST_F(SampleStepTest, EvictedScoresAreNotSaidTwice) {
  scheduler_ = std::make_unique<Scheduler>(limits(6));
  add(request_of(200, 1100));
  for (int i = 0; i < 305; ++i) step();
  auto request = request_of(1000, 1);
  request.prompt[0] = 9;
  request.prompt_logprobs = 1;
  const RequestId id = add(request);
  while (scheduler_->status().preemptions == 0) ASSERT_TRUE(step());
  const std::size_t said = scores_[id].size();
  EXPECT_GT(said, 0u);
  EXPECT_LT(said, 16u);
  run();
  expect_scores(id);
  EXPECT_GT(scheduler_->status().evaluated_tokens, 200u + 1100 + 1000);
  EXPECT_EQ(wanted_[id], 1000) << "each position's logits once";
}

TEST_F(SampleStepTest, ReplyLogprobsAreOfTheLogitsAsTheyCame) {
  auto request = request_of(10, 6);
  request.logprobs = 3;
  request.sampling.repetition_penalty = 1.5f;
  request.sampling.logit_bias = {{7, 4.0f}};
  const RequestId id = add(request);
  run();
  auto history = request.prompt;
  for (const auto& token : replies_[id]) {
    const auto logits = FakeRunner::logits_after(history, kVocabulary);
    const auto want = logprobs_of(logits, token.id, 3);
    ASSERT_TRUE(token.logprobs);
    EXPECT_EQ(token.logprobs->logprob, want.logprob);
    EXPECT_EQ(token.logprobs->top[0].token, want.top[0].token);
    history.push_back(token.id);
  }
  const RequestId plain = add(request_of(10, 1));
  run();
  EXPECT_FALSE(replies_[plain].at(0).logprobs);
}

// The likeliest tokens are made stop tokens: they come only after the first
// five.
TEST_F(SampleStepTest, StopTokensWaitForMinTokens) {
  auto request = request_of(10, 20);
  const auto alone = FakeRunner::reply_alone(request, kVocabulary);
  request.stop_tokens = alone;
  request.min_tokens = 5;
  const RequestId id = add(request);
  run();
  EXPECT_GE(replies_[id].size(), 6u);
  for (std::size_t i = 0; i + 1 < replies_[id].size(); ++i)
    EXPECT_EQ(std::count(alone.begin(), alone.end(), replies_[id][i].id), 0);
  request.min_tokens = 0;
  const RequestId at_once = add(request);
  run();
  EXPECT_EQ(replies_[at_once].size(), 1u);
}

// Different settings in one step: each reply is what it is alone (B57).
TEST_F(SampleStepTest, SettingsOfOneRequestAreNoOthers) {
  std::vector<Request> requests(5, request_of(70, 30));
  requests[1].sampling.logit_bias = {{3, 100.0f}};
  requests[2].sampling.repetition_penalty = 1.8f;
  requests[3].sampling = {.temperature = 1.5f, .min_p = 0.2f, .seed = 9};
  requests[4].sampling.frequency_penalty = 2.0f;
  requests[4].min_tokens = 10;
  std::vector<RequestId> ids;
  for (const auto& request : requests) ids.push_back(add(request));
  run();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<TokenId> tokens;
    for (const auto& token : replies_[ids[i]]) tokens.push_back(token.id);
    EXPECT_EQ(tokens, FakeRunner::reply_alone(requests[i], kVocabulary)) << i;
  }
}

TEST_F(SampleStepTest, OneUnusableRowOfManyIsNoted) {
  auto request = request_of(100, 1);
  request.prompt_logprobs = 0;
  add(request);
  const auto plan = scheduler_->plan();
  ASSERT_TRUE(plan);
  auto logits = runner_.run(*plan);
  logits.values[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(sample_step(*plan, logits, *scheduler_));
  scheduler_->fail(std::nullopt, "not a number");
}

}  // namespace
}  // namespace reprise
