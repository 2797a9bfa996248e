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

struct TokenBias {
  TokenId token = 0;
  float bias = 0;  // added to the token's logit
};

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy, the lowest id among equal logits
  int top_k = 0;             // keep the k largest logits; 0: keep all
  float top_p = 1.0f;        // keep the smallest set of this probability
  float min_p = 0.0f;        // keep what has this share of the largest one
  std::uint64_t seed = 0;    // token i is drawn with (seed, i) alone

  // Of tokens that stand among the last `repetition_window` ones of prompt and
  // reply (-1: all of them): a positive logit is divided by the penalty, a
  // negative one multiplied (Keskar et al. 2019). 1: none.
  float repetition_penalty = 1.0f;
  int repetition_window = -1;
  // Of tokens of the reply: subtracted once, and once for each time (OpenAI).
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;

  std::vector<TokenBias> logit_bias = {};  // each token at most once

  // Ids from here on are padding of the model's vocabulary, and never drawn;
  // 0: there is none.
  int vocabulary = 0;
};

struct Request {
  std::vector<TokenId> prompt;  // not empty; every id is in the vocabulary
  // Where other prompts may go on differently: positions inside the prompt,
  // ascending. A model that can be resumed only where a snapshot was kept gets
  // one there; others need none. At most kMarksMax.
  std::vector<int> marks = {};
  SamplingParams sampling;
  int max_tokens = 0;  // prompt + max_tokens fits the context. 0: the prompt
                       // is evaluated, and that is all
  std::vector<TokenId> stop_tokens;  // each ends the reply, itself included
  int min_tokens = 0;        // no stop token is drawn for the first so many
  bool cache_prompt = true;  // false: neither reads nor publishes state

  // Log-probabilities of each reply token, and of each prompt token but the
  // first, with those of the so many likeliest beside; nothing: none. The
  // prompt's need the logits of all its positions, so no state is reused.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
};

}  // namespace reprise
