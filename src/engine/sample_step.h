// A step's logits → what became of its rows: draws the tokens and reads off
// the log-probabilities that were asked for. Pure.
#pragma once

#include <optional>

#include "engine/runner.h"
#include "scheduler/scheduler.h"

namespace reprise {

// `scheduler` has made `plan` and knows nothing yet of its outcome. Nothing if
// any logits are unusable: the step is not to be believed.
std::optional<StepOutput> sample_step(const StepPlan& plan,
                                      const StepLogits& logits,
                                      const Scheduler& scheduler);

}  // namespace reprise
