#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace reprise {
namespace {

// Draws number `index` of a reply whose tokens so far do not matter.
TokenId sample(const std::vector<float>& logits, const SamplingParams& params,
               int index) {
  const std::vector<TokenId> reply(static_cast<std::size_t>(index), 0);
  return reprise::sample({.logits = logits, .prompt = {}, .reply = reply},
                         params);
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(sample(logits, {.temperature = 0}, 0), 1);
  EXPECT_EQ(sample(logits, {.temperature = 2, .top_k = 1}, 5), 1);
}

TEST(Sampler, SameSeedAndIndexSameToken) {
  std::vector<float> logits(1000);
  for (int i = 0; i < 1000; ++i) logits[i] = std::sin(0.1f * float(i));
  bool moved = false;
  for (int i = 0; i < 20; ++i) {
    const auto a = sample(logits, {.seed = 7}, i);
    EXPECT_EQ(a, sample(logits, {.seed = 7}, i));
    moved |= a != sample(logits, {.seed = 8}, i);
  }
  EXPECT_TRUE(moved);
}

// Draws follow softmax(logits / temperature): a chi-square of 5 classes.
TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5f};
  const double temperature = 0.7;
  double total = 0;
  for (float x : logits) total += std::exp(x / temperature);
  const int draws = 20000;
  std::map<TokenId, int> seen;
  for (int i = 0; i < draws; ++i)
    ++seen[sample(logits, {.temperature = 0.7f, .seed = 3}, i)];
  double chi2 = 0;
  for (TokenId id = 0; id < 5; ++id) {
    const double want = draws * std::exp(logits[id] / temperature) / total;
    chi2 += (seen[id] - want) * (seen[id] - want) / want;
  }
  EXPECT_LT(chi2, 18.5);  // 4 degrees of freedom, p = 0.001
}

TEST(Sampler, TopKAndTopPBoundTheChoice) {
  const std::vector<float> logits = {5, 4, 3, 2, 1, 0};
  std::map<TokenId, int> by_k, by_p;
  for (int i = 0; i < 2000; ++i) {
    ++by_k[sample(logits, {.temperature = 5, .top_k = 3}, i)];
    // softmax at temperature 1: 0.63, 0.23, 0.09, ...: 0.8 needs two.
    ++by_p[sample(logits, {.top_p = 0.8f}, i)];
  }
  EXPECT_EQ(by_k.size(), 3u);
  EXPECT_EQ(by_k.rbegin()->first, 2);
  EXPECT_EQ(by_p.size(), 2u);
  EXPECT_EQ(by_p.rbegin()->first, 1);
}

TEST(Sampler, TopPOverALargeFlatVocabularyReachesThePart) {
  const std::vector<float> logits(5000, 0.0f);
  TokenId largest = 0;
  for (int i = 0; i < 3000; ++i)
    largest = std::max(largest, sample(logits, {.top_p = 0.5f}, i));
  EXPECT_LT(largest, 2501);
  EXPECT_GT(largest, 2300);
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {none, 0, none, 0};
  for (int i = 0; i < 200; ++i) {
    const auto id = sample(logits, {.temperature = 2}, i);
    EXPECT_TRUE(id == 1 || id == 3);
  }
}

TEST(Sampler, MinPKeepsAShareOfTheLargest) {
  // Weights at temperature 1: 1, 0.61, 0.37, 0.22, ...
  const std::vector<float> logits = {0, -0.5f, -1, -1.5f, -2};
  std::map<TokenId, int> seen, hot, with_k;
  for (int i = 0; i < 3000; ++i) {
    ++seen[sample(logits, {.min_p = 0.3f}, i)];
    // Temperature comes first: at 2 the weights are 1, 0.78, 0.61, 0.47, 0.37.
    ++hot[sample(logits, {.temperature = 2, .min_p = 0.4f}, i)];
    ++with_k[sample(logits, {.top_k = 4, .min_p = 0.3f}, i)];
  }
  EXPECT_EQ(seen.rbegin()->first, 2);
  EXPECT_EQ(hot.rbegin()->first, 3);
  EXPECT_EQ(with_k.rbegin()->first, 2);
  // Shares are of what is left: 1 / (1 + 0.61 + 0.37) = 0.506.
  EXPECT_NEAR(seen[0] / 3000.0, 0.506, 0.04);
}

TEST(Sampler, MinPOfOneIsGreedy) {
  const std::vector<float> logits = {0, 2, 2, 1};
  for (int i = 0; i < 100; ++i) {
    const TokenId id = sample(logits, {.min_p = 1}, i);
    EXPECT_TRUE(id == 1 || id == 2) << id;
  }
}

TEST(Sampler, PaddingOfTheVocabularyIsNeverDrawn) {
  const std::vector<float> logits = {1, 2, 9, 9};
  EXPECT_EQ(sample(logits, {.temperature = 0, .vocabulary = 2}, 0), 1);
  for (int i = 0; i < 200; ++i)
    EXPECT_LT(sample(logits, {.temperature = 5, .vocabulary = 2}, i), 2);
}

TEST(Logprobs, AreALogSoftmaxThatSumsToOne) {
  std::vector<float> logits(1000);
  for (int i = 0; i < 1000; ++i) logits[i] = 20 * std::sin(0.7f * float(i));
  double sum = 0;
  for (TokenId id = 0; id < 1000; ++id)
    sum += std::exp(double{logprobs_of(logits, id, 0).logprob});
  EXPECT_NEAR(sum, 1, 1e-5);
  const auto all = logprobs_of(logits, 3, 1000);
  ASSERT_EQ(all.top.size(), 1000u);
  for (std::size_t i = 1; i < all.top.size(); ++i)
    EXPECT_GE(all.top[i - 1].logprob, all.top[i].logprob);
  EXPECT_EQ(all.top[static_cast<std::size_t>(all.rank) - 1].token, 3);
}

TEST(Logprobs, TopIsSortedAndOfEqualsTheLowestIdComesFirst) {
  const std::vector<float> logits = {1, 3, 3, 2};
  const auto some = logprobs_of(logits, 3, 2);
  ASSERT_EQ(some.top.size(), 2u);
  EXPECT_EQ(some.top[0].token, 1);
  EXPECT_EQ(some.top[1].token, 2);
  EXPECT_EQ(some.rank, 3);
  EXPECT_EQ(logprobs_of(logits, 2, 0).rank, 1);
  EXPECT_TRUE(logprobs_of(logits, 2, 0).top.empty());
  EXPECT_EQ(logprobs_of(logits, 2, 99).top.size(), 4u);
}

// Infinitely unlikely is a value like any other; huge logits do not overflow.
TEST(Logprobs, ExtremesStayNumbers) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {3e38f, none, 3e38f};
  EXPECT_NEAR(logprobs_of(logits, 0, 0).logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(logprobs_of(logits, 1, 0).logprob, none);
}

TEST(Sampler, UsableLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(all_usable(std::vector<float>{0, -inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{-inf, -inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{0, inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{0, std::nanf("")}));
}

}  // namespace
}  // namespace reprise
