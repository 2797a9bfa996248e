// A scheduler's plan → the flattened batch that models compute on. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ragged_batch.h"
#include "scheduler/step_plan.h"

namespace reprise {

struct PlannedStep {
  kernels::RaggedBatchPtr batch;
  std::vector<std::int32_t> token_ids;    // [batch->tokens]
  std::vector<std::int32_t> logits_rows;  // rows whose logits are wanted
};

// CHECKs that every row's block table covers its tokens.
PlannedStep planned_step(const StepPlan& plan);

}  // namespace reprise
