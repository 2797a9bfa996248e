#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/fake_runner.h"

namespace reprise {
namespace {

constexpr int kVocabulary = 32;

class StepLoopTest : public testing::Test {
 protected:
  StepLoopTest()
      : runner_(options()),
        loop_(runner_,
              {.parallel = 4, .context_tokens = 2000, .block_count = 32},
              [this] {
                return std::chrono::steady_clock::time_point(
                    std::chrono::milliseconds(now_ms_));
              }) {
    runner_.options().during_step = [this] { now_ms_ += 100; };
  }

  static FakeRunnerOptions options() {
    FakeRunnerOptions options;
    options.vocabulary = kVocabulary;
    options.block_count = 32;
    return options;
  }

  RequestId submit(Request request) {
    const RequestId id = next_id_++;
    requests_[id] = request;
    loop_.add({.id = id,
               .request = std::move(request),
               .sink = [this](const Event& event) { events_.push_back(event); },
               .submitted = std::chrono::steady_clock::time_point(
                   std::chrono::milliseconds(now_ms_))});
    return id;
  }

  void run() {
    while (loop_.step()) {
    }
  }

  static Request request_of(TokenId first, int prompt, int max_tokens) {
    Request request;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back((first + i * 5) % kVocabulary);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }

  std::vector<TokenId> reply(RequestId id) const {
    std::vector<TokenId> tokens;
    for (const Event& event : events_)
      if (const auto* token = std::get_if<SampledToken>(&event.what);
          token != nullptr && event.id == id)
        tokens.push_back(token->id);
    return tokens;
  }

  // The request's one Finish.
  Finish finish(RequestId id) const {
    std::vector<Finish> all;
    for (const Event& event : events_)
      if (const auto* done = std::get_if<Finish>(&event.what);
          done != nullptr && event.id == id)
        all.push_back(*done);
    EXPECT_EQ(all.size(), 1u) << "request " << id;
    return all.empty() ? Finish{} : all[0];
  }

  std::vector<TokenId> alone(RequestId id) const {
    return FakeRunner::reply_alone(requests_.at(id), kVocabulary);
  }

  long now_ms_ = 0;
  RequestId next_id_ = 1;
  FakeRunner runner_;
  StepLoop loop_;
  std::map<RequestId, Request> requests_;
  std::vector<Event> events_;
};

TEST_F(StepLoopTest, OnlyTheGuiltyRequestFails) {
  runner_.options().throws_at_row = [](const StepRow& row) {
    return row.id == 2 && row.start + row.tokens.size() > 80;
  };
  for (TokenId i = 1; i <= 4; ++i) submit(request_of(i, 70, 30));
  run();
  EXPECT_EQ(finish(2).reason, FinishReason::error);
  EXPECT_NE(finish(2).error.find("cannot be computed"), std::string::npos);
  EXPECT_EQ(reply(2).size(), 11u) << "up to the row that failed";
  for (const RequestId id : {1, 3, 4}) {
    EXPECT_EQ(finish(id).reason, FinishReason::length);
    EXPECT_EQ(reply(id), alone(id));
  }
  // Together, alone and again; and so once more after it started over.
  EXPECT_EQ(loop_.status().steps_failed, 6u);
}

TEST_F(StepLoopTest, LogitsThatAreNoNumbersFailTheirRequestOnly) {
  runner_.options().nan_logits = [](const StepRow& row) {
    return row.id == 3 && row.start > 75;
  };
  for (TokenId i = 1; i <= 3; ++i) submit(request_of(i, 70, 30));
  run();
  EXPECT_EQ(finish(3).reason, FinishReason::error);
  EXPECT_NE(finish(3).error.find("not numbers"), std::string::npos);
  for (const RequestId id : {1, 2}) EXPECT_EQ(reply(id), alone(id));
}

TEST_F(StepLoopTest, AFailureThatPassesCostsNobodyAnything) {
  int steps = 0;
  runner_.options().throws_at_step = [&](const StepPlan& plan) {
    return ++steps % 5 == 0 && plan.rows.size() > 1;
  };
  for (TokenId i = 1; i <= 4; ++i) submit(request_of(i, 300, 50));
  run();
  EXPECT_GT(loop_.status().steps_failed, 3u);
  for (const RequestId id : {1, 2, 3, 4}) EXPECT_EQ(reply(id), alone(id));
}

TEST_F(StepLoopTest, AFailedRequestCanBeAskedAgain) {
  bool broken = true;
  runner_.options().nan_logits = [&](const StepRow&) { return broken; };
  const auto first = submit(request_of(1, 600, 5));
  run();
  EXPECT_EQ(finish(first).reason, FinishReason::error);
  broken = false;
  const auto second = submit(request_of(1, 600, 5));
  run();
  EXPECT_EQ(reply(second), alone(second));
  EXPECT_EQ(finish(second).cache.memory_tokens, 0)
      << "what led to a failure is not used again";
}

// Somebody wrote over cached rows. Who meets them is served all the same, the
// blocks are given to nobody else, and the next one finds sound ones.
TEST_F(StepLoopTest, APoisonedPrefixIsQuarantined) {
  const RequestId first = submit(request_of(1, 600, 5));
  run();
  EXPECT_EQ(reply(first), alone(first));
  for (BlockId id = 0; id < 32; ++id)
    runner_.options().poisoned_blocks.insert(id);
  const RequestId second = submit(request_of(1, 600, 20));
  run();
  EXPECT_EQ(reply(second), alone(second));
  EXPECT_EQ(finish(second).cache.miss_reason, MissReason::corrupt);
  EXPECT_EQ(finish(second).cache.evaluated_tokens, 600);
  EXPECT_EQ(loop_.status().requests_started_over, 1u);
  EXPECT_EQ(loop_.status().blocks_quarantined, 3u);
  const RequestId third = submit(request_of(1, 600, 5));
  run();
  EXPECT_EQ(finish(third).cache.memory_tokens, 0);
  const RequestId fourth = submit(request_of(1, 600, 5));
  run();
  EXPECT_EQ(reply(fourth), alone(fourth));
  EXPECT_EQ(finish(fourth).cache.memory_tokens, 599);
  EXPECT_EQ(loop_.status().requests_started_over, 1u);
}

// A step that fails by chance while one request runs alone costs it nothing.
TEST_F(StepLoopTest, AChanceFailureAloneIsTriedAgain) {
  int steps = 0;
  runner_.options().throws_at_step = [&](const StepPlan&) {
    return ++steps % 7 == 3;
  };
  const RequestId id = submit(request_of(1, 300, 60));
  run();
  EXPECT_EQ(reply(id), alone(id));
  EXPECT_EQ(loop_.status().requests_started_over, 0u);
  EXPECT_GT(loop_.status().steps_failed, 5u);
}

TEST_F(StepLoopTest, TimesAreThoseOfTheClock) {
  now_ms_ = 1000;
  for (TokenId i = 1; i <= 4; ++i) submit(request_of(i, 10, 3));
  const auto last = submit(request_of(5, 10, 4));
  run();
  const auto first = finish(1).timings;
  EXPECT_EQ(first.queue_ms, 0);
  EXPECT_EQ(first.prompt_ms, 100);
  EXPECT_EQ(first.predicted_ms, 200);
  EXPECT_EQ(first.predicted_n, 3);
  const auto queued = finish(last).timings;
  EXPECT_EQ(queued.queue_ms, 300);
  EXPECT_EQ(queued.prompt_ms, 100);
  EXPECT_EQ(queued.predicted_ms, 300);
}

TEST_F(StepLoopTest, SeededRepliesAreThoseOfTheRequestAlone) {
  for (TokenId i = 1; i <= 4; ++i) {
    auto request = request_of(i, 100, 60);
    request.sampling.temperature = 1;
    request.sampling.seed = 7;
    submit(request);
  }
  run();
  for (const RequestId id : {1, 2, 3, 4}) EXPECT_EQ(reply(id), alone(id));
}

TEST_F(StepLoopTest, AReceiverThatThrowsHasItsRequestCancelled) {
  int heard = 0;
  loop_.add({.id = 99,
             .request = request_of(1, 10, 1000),
             .sink =
                 [&](const Event&) {
                   ++heard;
                   throw std::runtime_error("gone");
                 },
             .submitted = {}});
  const auto other = submit(request_of(2, 10, 20));
  run();
  EXPECT_EQ(heard, 1);
  EXPECT_LT(loop_.status().generated_tokens, 30u);
  EXPECT_EQ(reply(other), alone(other));
}

TEST_F(StepLoopTest, WhateverIsAbandonedIsTold) {
  submit(request_of(1, 10, 100));
  submit(request_of(2, 10, 100));
  loop_.step();
  loop_.abandon_all("the roof fell in");
  for (const RequestId id : {1, 2}) {
    EXPECT_EQ(finish(id).reason, FinishReason::error);
    EXPECT_EQ(finish(id).error, "the roof fell in");
  }
}

}  // namespace
}  // namespace reprise
