// Logits → token, on the host. A pure function: what is drawn for position i
// of a reply depends on the logits, the parameters and (seed, i), and on
// nothing that happened before, so a resumed or regrouped run draws the same.
#pragma once

#include <span>

#include "request/request.h"

namespace reprise {

// `logits` holds no NaN (see all_finite); `index` counts the reply's tokens
// from 0. Order: temperature, top-k, top-p over the k, draw. temperature 0
// and top_k 1 are greedy: the lowest id among the largest logits.
TokenId sample(std::span<const float> logits, const SamplingParams& params,
               int index);

// False if any logit is NaN or +infinity, or all are -infinity: the step that
// made them is not to be believed.
bool all_usable(std::span<const float> logits);

}  // namespace reprise
