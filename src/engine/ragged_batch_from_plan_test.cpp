#include "engine/ragged_batch_from_plan.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(PlannedStep, FlattensRowsAndFindsTheirPlaces) {
  StepPlan plan;
  plan.rows.push_back(
      {.id = 1, .start = 255, .tokens = {7, 8}, .blocks = {4, 9}});
  plan.rows.push_back(
      {.id = 2, .start = 0, .tokens = {5}, .blocks = {2}, .logits_wanted = 1});
  plan.copies.push_back({.from = 3, .to = 4, .rows = 10});
  const PlannedStep step = planned_step(plan);
  EXPECT_EQ(step.batch->tokens, 3);
  EXPECT_EQ(step.token_ids, (std::vector<std::int32_t>{7, 8, 5}));
  EXPECT_EQ(step.batch->pool_rows,
            (std::vector<std::int64_t>{4 * 256 + 255, 9 * 256, 2 * 256}));
  EXPECT_EQ(step.logits_rows, std::vector<std::int32_t>{2});
  ASSERT_EQ(step.batch->spans.size(), 2u);
  EXPECT_EQ(step.batch->spans[1].first_row, 2);
  EXPECT_EQ(step.batch->spans[0].length_after(), 257);
  EXPECT_EQ(step.batch->copies[0].to_row, 4 * 256);
}

TEST(PlannedStepDeathTest, ATableThatIsTooShort) {
  StepPlan plan;
  plan.rows.push_back({.id = 1, .start = 256, .tokens = {7}, .blocks = {4}});
  EXPECT_DEATH(planned_step(plan), "position 256 of request 1, 1 blocks");
}

}  // namespace
}  // namespace reprise
