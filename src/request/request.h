// What a client asks for, in the engine's terms: token ids and numbers. No
// JSON, no text, no state. Plain values, copied freely between rings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

using TokenId = std::int32_t;
using RequestId = std::uint64_t;  // unique in one process; 0 is never used

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy, the lowest id among equal logits
  int top_k = 0;             // keep the k largest logits; 0: keep all
  float top_p = 1.0f;        // keep the smallest set of this probability
  std::uint64_t seed = 0;    // token i is drawn with (seed, i) alone
};

struct Request {
  std::vector<TokenId> prompt;  // not empty; every id is in the vocabulary
  SamplingParams sampling;
  int max_tokens = 0;  // > 0; prompt + max_tokens fits the context
  std::vector<TokenId> stop_tokens;  // each ends the reply, itself included
  bool cache_prompt = true;          // false: neither reads nor publishes state
};

}  // namespace reprise
