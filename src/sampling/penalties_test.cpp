#include "sampling/penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace reprise {
namespace {

using testing::ElementsAre;

const float kNever = -std::numeric_limits<float>::infinity();
const std::vector<float> kLogits = {2, -2, 1, 0.5f};

std::vector<float> adjusted(const std::vector<TokenId>& prompt,
                            const std::vector<TokenId>& reply,
                            const SamplingParams& params,
                            const std::vector<TokenId>& banned = {}) {
  return adjusted_logits(
      {.logits = kLogits, .prompt = prompt, .reply = reply, .banned = banned},
      params);
}

TEST(Penalties, RepetitionDividesOrMultipliesOncePerToken) {
  EXPECT_THAT(adjusted({0, 0, 1}, {2, 2}, {.repetition_penalty = 2}),
              ElementsAre(1, -4, 0.5f, 0.5f));
}

TEST(Penalties, TheWindowCountsFromTheEnd) {
  const SamplingParams two{.repetition_penalty = 2, .repetition_window = 2};
  EXPECT_THAT(adjusted({1, 0}, {2}, two), ElementsAre(1, -2, 0.5f, 0.5f));
  EXPECT_THAT(adjusted({0}, {1, 3, 2}, two), ElementsAre(2, -2, 0.5f, 0.25f));
  const SamplingParams none{.repetition_penalty = 2, .repetition_window = 0};
  EXPECT_THAT(adjusted({0}, {1}, none), ElementsAre(2, -2, 1, 0.5f));
}

TEST(Penalties, PresenceAndFrequencyLookAtTheReply) {
  const SamplingParams params{.presence_penalty = 0.5f,
                              .frequency_penalty = 0.25f};
  EXPECT_THAT(adjusted({3, 3}, {0, 2, 2}, params),
              ElementsAre(1.25f, -2, 0, 0.5f));
}

TEST(Penalties, NegativeOnesFavour) {
  EXPECT_THAT(adjusted({}, {1}, {.presence_penalty = -1}),
              ElementsAre(2, -1, 1, 0.5f));
}

TEST(Penalties, BiasComesFirst) {
  EXPECT_THAT(
      adjusted({1}, {}, {.repetition_penalty = 2, .logit_bias = {{1, 6}}}),
      ElementsAre(2, 2, 1, 0.5f));
}

TEST(Penalties, BannedTokensAreOut) {
  EXPECT_THAT(adjusted({}, {}, {}, {0, 2}),
              ElementsAre(kNever, -2, kNever, 0.5f));
}

// A ban on everything is a ban on nothing: some token has to come.
TEST(Penalties, ABanOnAllGivesWay) {
  EXPECT_THAT(adjusted({}, {}, {}, {0, 1, 2, 3}), ElementsAre(2, -2, 1, 0.5f));
}

// Ids beyond the logits (padding that was cut off) are nobody's.
TEST(Penalties, ForeignIdsAreIgnored) {
  EXPECT_THAT(adjusted({99, -1}, {77},
                       {.repetition_penalty = 2,
                        .presence_penalty = 1,
                        .logit_bias = {{50, 1}}},
                       {60}),
              ElementsAre(2, -2, 1, 0.5f));
}

TEST(Penalties, PlainRequestsLeaveTheLogits) {
  const SampleInput plain{.logits = kLogits, .prompt = {}, .reply = {}};
  EXPECT_TRUE(leaves_logits(plain, {.temperature = 0.5f, .min_p = 0.1f}));
  EXPECT_FALSE(leaves_logits(plain, {.repetition_penalty = 1.1f}));
  EXPECT_FALSE(leaves_logits(plain, {.presence_penalty = 0.1f}));
  EXPECT_FALSE(leaves_logits(plain, {.frequency_penalty = 0.1f}));
  EXPECT_FALSE(leaves_logits(plain, {.logit_bias = {{0, 1}}}));
  const std::vector<TokenId> stop = {1};
  EXPECT_FALSE(leaves_logits(
      {.logits = kLogits, .prompt = {}, .reply = {}, .banned = stop}, {}));
}

}  // namespace
}  // namespace reprise
