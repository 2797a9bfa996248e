// Reports against other servers, where the fault would lie in the engine:
// many requests at once against a model that gives each its own reply.
// tests/reports has the same ones over HTTP.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_runner.h"

namespace reprise {
namespace {

constexpr int kVocabulary = 64;

struct Reply {
  std::vector<TokenId> tokens;
  std::promise<Finish> finish;
};

class EngineReports : public testing::Test {
 protected:
  EngineReports() : engine_(make_runner, options()) {
    EXPECT_TRUE(engine_.wait_ready());
  }

  static std::unique_ptr<Runner> make_runner() {
    FakeRunnerOptions options;
    options.vocabulary = kVocabulary;
    return std::make_unique<FakeRunner>(options);
  }
  static EngineOptions options() {
    EngineOptions options;
    options.parallel = 8;
    return options;
  }

  static Request request_of(TokenId first, int prompt) {
    Request request;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back((first + i * 11) % kVocabulary);
    request.max_tokens = 24;
    request.sampling.temperature = 0;
    return request;
  }

  std::shared_ptr<Reply> submit(const Request& request) {
    auto reply = std::make_shared<Reply>();
    const auto id = engine_.submit(request, [reply](const Event& event) {
      if (const auto* token = std::get_if<SampledToken>(&event.what))
        reply->tokens.push_back(token->id);
      else
        reply->finish.set_value(std::get<Finish>(event.what));
    });
    EXPECT_TRUE(id);
    return reply;
  }

  Engine engine_;
};

TEST_F(EngineReports, B56TwoClientsGetEachTheirOwnReply) {
  for (int round = 0; round < 100; ++round) {
    const auto left = request_of(round, 30 + round);
    const auto right = request_of(round + 1, 40);
    const auto a = submit(left);
    const auto b = submit(right);
    EXPECT_EQ(a->finish.get_future().get().reason, FinishReason::length);
    EXPECT_EQ(b->finish.get_future().get().reason, FinishReason::length);
    ASSERT_EQ(a->tokens, FakeRunner::reply_alone(left, kVocabulary));
    ASSERT_EQ(b->tokens, FakeRunner::reply_alone(right, kVocabulary));
    ASSERT_NE(a->tokens, b->tokens);
  }
}

TEST_F(EngineReports, B69IdenticalRequestsGetIdenticalReplies) {
  for (const bool cache : {true, false}) {
    auto request = request_of(3, 300);
    request.cache_prompt = cache;
    std::vector<std::shared_ptr<Reply>> replies;
    for (int i = 0; i < 8; ++i) replies.push_back(submit(request));
    for (const auto& reply : replies) {
      EXPECT_EQ(reply->finish.get_future().get().reason, FinishReason::length);
      EXPECT_EQ(reply->tokens, FakeRunner::reply_alone(request, kVocabulary));
    }
  }
}

}  // namespace
}  // namespace reprise
