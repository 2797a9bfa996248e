// What a request asks to be changed about the logits before a token is drawn.
// Pure.
#pragma once

#include <span>
#include <vector>

#include "sampling/sampler.h"

namespace reprise {

// Nothing to change: the logits can be used as they are.
bool leaves_logits(const SampleInput& input, const SamplingParams& params);

// The logits with bias, penalties (in this order) applied and banned tokens
// at -infinity; without the padding of the vocabulary. If nothing finite would
// be left, `banned` is ignored.
std::vector<float> adjusted_logits(const SampleInput& input,
                                   const SamplingParams& params);

}  // namespace reprise
