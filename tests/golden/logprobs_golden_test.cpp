// Log-probabilities of golden prompts, as a client asks for them, against the
// log-softmax of the reference's logits: alone, and with four others in the
// same steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "golden.h"
#include "support/scheduled_run.h"

namespace reprise {
namespace {

class LogprobsGolden : public testing::TestWithParam<FixtureModel> {
 protected:
  LogprobsGolden()
      : golden_(load_golden(GetParam())), runner_(runner_of(GetParam().path)) {}

  Request scoring_request() const {
    Request request;
    request.prompt = golden_.ints("input_ids");
    request.max_tokens = 0;
    request.prompt_logprobs = runner_->info().vocabulary;
    return request;
  }

  // The reference's log-softmax at the i-th listed position.
  std::vector<double> reference(int i) const {
    const auto logits = golden_.row("logits", i);
    const double peak = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float x : logits) sum += std::exp(x - peak);
    std::vector<double> out;
    for (const float x : logits) out.push_back(x - peak - std::log(sum));
    return out;
  }

  // The whole distribution at every listed position that has a token after it.
  void check(const std::vector<TokenLogprobs>& got) const {
    const auto ids = golden_.ints("input_ids");
    const auto positions = golden_.ints("positions");
    ASSERT_EQ(got.size() + 1, ids.size());
    double worst = 0;
    int compared = 0;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto after = static_cast<std::size_t>(positions[i]);
      if (after >= got.size()) continue;
      const auto want = reference(static_cast<int>(i));
      const TokenLogprobs& token = got[after];
      worst = std::max(worst, std::abs(token.logprob - want[ids[after + 1]]));
      for (const auto& [id, logprob] : token.top)
        worst = std::max(worst, std::abs(logprob - want[id]));
      ++compared;
    }
    EXPECT_GT(compared, 5);
    // A logit and the sum over all may each be off by the tolerance.
    EXPECT_LE(worst, golden_.tolerance);
    std::printf("%s: %d positions, worst difference %.2e, tolerance %.2e\n",
                GetParam().name().c_str(), compared, worst, golden_.tolerance);
  }

  const Golden golden_;
  const std::unique_ptr<Runner> runner_;
};

TEST_P(LogprobsGolden, EqualTheReference) {
  ScheduledRun run(*runner_, 8);
  const auto reply = run.run(scoring_request());
  EXPECT_TRUE(reply.tokens.empty());
  check(reply.prompt_logprobs);
}

TEST_P(LogprobsGolden, AreADistributionInOrder) {
  ScheduledRun run(*runner_, 8);
  for (const TokenLogprobs& token :
       run.run(scoring_request()).prompt_logprobs) {
    ASSERT_EQ(static_cast<int>(token.top.size()), runner_->info().vocabulary);
    double sum = 0;
    for (const auto& [id, logprob] : token.top)
      sum += std::exp(double{logprob});
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_TRUE(std::is_sorted(
        token.top.begin(), token.top.end(),
        [](const auto& a, const auto& b) { return a.logprob > b.logprob; }));
    EXPECT_EQ(token.top.at(static_cast<std::size_t>(token.rank) - 1).logprob,
              token.logprob);
  }
}

// Four others join: two that decode, two that prefill. The same bits as alone.
TEST_P(LogprobsGolden, InACrowdTheyAreAsAlone) {
  ScheduledRun alone(*runner_, 8);
  const auto want = alone.run(scoring_request()).prompt_logprobs;

  ScheduledRun crowd(*runner_, 8);
  for (int i = 0; i < 4; ++i) {
    Request other;
    other.prompt = golden_.ints("input_ids");
    std::rotate(other.prompt.begin(), other.prompt.begin() + 7 * (i + 1),
                other.prompt.end());
    if (i < 2) other.prompt.resize(20);
    other.max_tokens = 60;
    other.sampling.temperature = 0.5f * float(i);
    crowd.add(other);
  }
  crowd.step();
  const RequestId id = crowd.add(scoring_request());
  crowd.run();
  const auto& got = crowd.replies[id].prompt_logprobs;
  check(got);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].logprob, want[i].logprob) << i;
    EXPECT_EQ(got[i].rank, want[i].rank) << i;
  }
}

// What is sampled carries the log-probability of the reference's logits too.
TEST_P(LogprobsGolden, OfAReply) {
  const int every = GetParam().quantized.empty() ? 1 : 4;
  Request request;
  request.prompt = golden_.ints("input_ids");
  request.max_tokens = static_cast<int>(golden_.ints("greedy_ids").size());
  request.sampling.temperature = 0;
  request.logprobs = 3;
  ScheduledRun run(*runner_, 8);
  const auto reply = run.run(request);
  EXPECT_EQ(reply.tokens, golden_.ints("greedy_ids"));
  ASSERT_EQ(reply.logprobs.size(), reply.tokens.size());
  for (std::size_t i = 0; i < reply.tokens.size(); i += every) {
    const auto logits =
        golden_.row("greedy_logits", static_cast<int>(i) / every);
    double sum = 0;
    for (const float x : logits) sum += std::exp(double{x});
    const TokenLogprobs& token = reply.logprobs[i];
    EXPECT_NEAR(token.logprob, logits[reply.tokens[i]] - std::log(sum),
                golden_.tolerance);
    EXPECT_EQ(token.rank, 1);
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_EQ(token.top[0].token, reply.tokens[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LogprobsGolden,
                         testing::ValuesIn(fixture_models()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise
