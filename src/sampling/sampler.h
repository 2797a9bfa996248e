// Logits → token, on the host. Pure functions: what is drawn for position i
// of a reply depends on the logits, the parameters, the tokens before and
// (seed, i), and on nothing else that happened, so a resumed or regrouped run
// draws the same.
#pragma once

#include <span>

#include "request/event.h"
#include "request/request.h"

namespace reprise {

struct SampleInput {
  std::span<const float> logits;    // holds no NaN (see all_usable)
  std::span<const TokenId> prompt;  // penalties look at both
  std::span<const TokenId> reply;   // its size is the index of what is drawn
  std::span<const TokenId> banned = {};  // never drawn
};

// Order: padding and banned tokens out, bias, penalties, temperature, min-p,
// top-k, top-p over what they left, draw. temperature 0 and top_k 1 are
// greedy: the lowest id among the largest logits. Where nothing may be drawn
// (all is banned), the ban on stop tokens is what gives way.
TokenId sample(const SampleInput& input, const SamplingParams& params);

// What the logits say about `token`, and about the `top` likeliest. The sum
// over the vocabulary is taken in double, in id order.
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token,
                          int top);

// False if any logit is NaN or +infinity, or all are -infinity: the step that
// made them is not to be believed.
bool all_usable(std::span<const float> logits);

}  // namespace reprise
