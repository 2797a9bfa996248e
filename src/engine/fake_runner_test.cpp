#include "engine/fake_runner.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

FakeRunnerOptions options() {
  FakeRunnerOptions options;
  options.block_count = 4;
  return options;
}

StepRow row_of(RequestId id, int start, std::vector<TokenId> tokens,
               std::vector<BlockId> blocks) {
  return {.id = id,
          .start = start,
          .tokens = std::move(tokens),
          .blocks = std::move(blocks),
          .logits_wanted = 1};
}

TEST(FakeRunner, LogitsAreAFunctionOfTheWholeHistory) {
  FakeRunner runner(options());
  runner.run({.rows = {row_of(1, 0, {5, 6, 7}, {2})}, .copies = {}});
  const auto logits =
      runner.run({.rows = {row_of(1, 3, {8}, {2})}, .copies = {}});
  EXPECT_EQ(logits.values,
            FakeRunner::logits_after(std::vector<TokenId>{5, 6, 7, 8}, 32));
  EXPECT_NE(logits.values,
            FakeRunner::logits_after(std::vector<TokenId>{4, 6, 7, 8}, 32));
}

TEST(FakeRunner, SeesTheWrongBlock) {
  FakeRunner runner(options());
  runner.run({.rows = {row_of(1, 0, {5, 6}, {0}), row_of(2, 0, {5, 9}, {1})},
              .copies = {}});
  EXPECT_THROW(runner.run({.rows = {row_of(1, 2, {7}, {1})}, .copies = {}}),
               FakeRunnerLie);
  EXPECT_THROW(runner.run({.rows = {row_of(3, 2, {7}, {3})}, .copies = {}}),
               FakeRunnerLie)
      << "never written";
}

TEST(FakeRunner, SeesRowsThatWereNeverCommitted) {
  FakeRunner runner(options());
  runner.options().throws_at_step = [](const StepPlan&) { return true; };
  EXPECT_THROW(runner.run({.rows = {row_of(1, 0, {5, 6}, {0})}, .copies = {}}),
               std::runtime_error);
  runner.options().throws_at_step = {};
  EXPECT_THROW(runner.run({.rows = {row_of(1, 2, {7}, {0})}, .copies = {}}),
               FakeRunnerLie);
  // Written, then cut back: what lies past the new start is gone.
  runner.run({.rows = {row_of(2, 0, {1, 2, 3, 4}, {1})}, .copies = {}});
  runner.run({.rows = {row_of(2, 2, {3}, {1})}, .copies = {}});
  EXPECT_THROW(runner.run({.rows = {row_of(3, 4, {5}, {1})}, .copies = {}}),
               FakeRunnerLie);
}

TEST(FakeRunner, SeesAWriteIntoABlockThatAnotherReads) {
  FakeRunner runner(options());
  runner.run({.rows = {row_of(1, 0, std::vector<TokenId>(256, 3), {0})},
              .copies = {}});
  EXPECT_THROW(
      runner.run({.rows = {row_of(1, 256, {1}, {0, 1}), row_of(2, 8, {1}, {0})},
                  .copies = {}}),
      FakeRunnerLie);
  EXPECT_THROW(
      runner.run({.rows = {row_of(1, 256, {1}, {0, 1}), row_of(2, 0, {1}, {1})},
                  .copies = {}}),
      FakeRunnerLie);
}

TEST(FakeRunner, CopiesAsManyRowsAsThePlanSays) {
  FakeRunner runner(options());
  runner.run({.rows = {row_of(1, 0, {5, 6, 7}, {0})}, .copies = {}});
  runner.run({.rows = {row_of(2, 2, {9}, {1})},
              .copies = {{.from = 0, .to = 1, .rows = 2}}});
  EXPECT_EQ(runner.rows_copied(), 2u);
  EXPECT_THROW(runner.run({.rows = {row_of(3, 3, {9}, {2})},
                           .copies = {{.from = 0, .to = 2, .rows = 2}}}),
               FakeRunnerLie);
}

TEST(FakeRunner, KnowsThePromptItWasTold) {
  FakeRunner runner(options());
  runner.expect(1, {5, 6, 7});
  EXPECT_THROW(runner.run({.rows = {row_of(1, 0, {5, 7}, {0})}, .copies = {}}),
               FakeRunnerLie);
}

}  // namespace
}  // namespace reprise
