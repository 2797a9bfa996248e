#include "engine/ragged_batch_from_plan.h"

#include <memory>

#include "base/check.h"
#include "base/limits.h"

namespace reprise {
namespace {

std::int64_t pool_row(const StepRow& row, int position) {
  const auto block = static_cast<std::size_t>(position / kBlockTokens);
  CHECK(block < row.blocks.size(), "position {} of request {}, {} blocks",
        position, row.id, row.blocks.size());
  return std::int64_t{row.blocks[block]} * kBlockTokens +
         position % kBlockTokens;
}

}  // namespace

PlannedStep planned_step(const StepPlan& plan) {
  CHECK(!plan.rows.empty());
  PlannedStep step;
  auto batch = std::make_shared<kernels::RaggedBatch>();
  for (const StepRow& row : plan.rows) {
    CHECK(!row.tokens.empty(), "request {}", row.id);
    const int count = static_cast<int>(row.tokens.size());
    batch->spans.push_back({.first_row = batch->tokens,
                            .row_count = count,
                            .start = row.start,
                            .blocks = {row.blocks.begin(), row.blocks.end()},
                            .slot_from = row.slot_from,
                            .slot_to = row.slot_to});
    for (int i = 0; i < count; ++i)
      batch->pool_rows.push_back(pool_row(row, row.start + i));
    step.token_ids.insert(step.token_ids.end(), row.tokens.begin(),
                          row.tokens.end());
    batch->tokens += count;
    CHECK(row.logits_wanted >= 0 && row.logits_wanted <= count, "request {}",
          row.id);
    for (int i = row.logits_wanted; i > 0; --i)
      step.logits_rows.push_back(batch->tokens - i);
  }
  for (const BlockCopy& copy : plan.copies)
    batch->copies.push_back({.from_row = std::int64_t{copy.from} * kBlockTokens,
                             .to_row = std::int64_t{copy.to} * kBlockTokens,
                             .rows = copy.rows});
  step.batch = std::move(batch);
  return step;
}

}  // namespace reprise
