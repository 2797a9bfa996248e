// One prompt through a runner, without scheduler or sampling: the logits after
// each of its tokens. For comparisons with other programs.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "engine/runner.h"

namespace reprise {

// Called for each span of tokens in order: logits.row(i) belongs to token
// first + i. What it throws ends the evaluation.
using SpanLogits = std::function<void(int first, const StepLogits& logits)>;

// Errors, before anything is evaluated: invalid for no ids and for one that
// the model does not have (with its place and the limit),
// context_length_exceeded, too_large where the pools do not hold the state.
// Passes on what the runner throws. Uses the runner's blocks from 0 on and,
// where the model keeps snapshots, slots 0 and 1.
Result<void> evaluate_prompt(Runner& runner, std::span<const TokenId> ids,
                             const SpanLogits& receive);

}  // namespace reprise
