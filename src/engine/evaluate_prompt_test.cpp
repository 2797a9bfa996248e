#include "engine/evaluate_prompt.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/fake_runner.h"

namespace reprise {
namespace {

FakeRunnerOptions options(int block_count, int context_tokens = 4096,
                          int slot_count = 0) {
  FakeRunnerOptions options;
  options.slot_count = slot_count;
  options.block_count = block_count;
  options.context_tokens = context_tokens;
  return options;
}

std::vector<TokenId> ids_of(int count) {
  std::vector<TokenId> ids(count);
  for (int i = 0; i < count; ++i) ids[i] = i * 7 % 32;
  return ids;
}

void check_logits(int slot_count) {
  for (const int count : {1, 63, 64, 65, 300}) {
    FakeRunner runner(options(2, 4096, slot_count));
    const auto ids = ids_of(count);
    int next = 0;
    const auto done =
        evaluate_prompt(runner, ids, [&](int first, const StepLogits& logits) {
          EXPECT_EQ(first, next);
          const int rows = int(logits.values.size()) / logits.vocabulary;
          for (int i = 0; i < rows; ++i, ++next) {
            const auto row = logits.row(i);
            EXPECT_EQ(
                std::vector<float>(row.begin(), row.end()),
                FakeRunner::logits_after(std::span(ids).first(next + 1), 32));
          }
        });
    EXPECT_TRUE(done);
    EXPECT_EQ(next, count);
    EXPECT_EQ(runner.tokens_evaluated(), std::size_t(count));
  }
}

TEST(EvaluatePrompt, GivesTheLogitsAfterEveryToken) {
  check_logits(0);
}

TEST(EvaluatePrompt, CarriesTheSnapshotFromSpanToSpan) {
  check_logits(2);
}

std::string refusal(std::vector<TokenId> ids,
                    FakeRunnerOptions o = options(64)) {
  FakeRunner runner(std::move(o));
  const auto done = evaluate_prompt(
      runner, ids, [](int, const StepLogits&) { FAIL() << "was evaluated"; });
  EXPECT_FALSE(done);
  return done ? "" : done.error().message;
}

TEST(EvaluatePrompt, RefusesBeforeAnythingIsEvaluated) {
  EXPECT_EQ(refusal({}), "there are no token ids to evaluate");
  EXPECT_EQ(refusal({5, 31, 32}),
            "token id 32 (number 3 of 3) is not one of this model's, which "
            "are 0 to 31");
  EXPECT_NE(refusal({-1}).find("token id -1 (number 1 of 1)"),
            std::string::npos);
  EXPECT_NE(refusal(ids_of(101), options(64, 100)).find("context of 100"),
            std::string::npos);
  EXPECT_NE(refusal(ids_of(257), options(1)).find("holds (256)"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise
