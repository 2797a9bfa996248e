#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace reprise {
namespace {

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

TEST(Sampler, UsableLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(all_usable(std::vector<float>{0, -inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{-inf, -inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{0, inf}));
  EXPECT_FALSE(all_usable(std::vector<float>{0, std::nanf("")}));
}

}  // namespace
}  // namespace reprise
