// What the engine says about a request: the log-probabilities of its prompt
// where they were asked for, its tokens as they are sampled, then exactly one
// Finish.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "request/request.h"

namespace reprise {

enum class FinishReason { stop, length, cancelled, error };

// Why fewer prompt tokens were reused than could be.
enum class MissReason {
  none,                // all but the last prompt token were reused
  diverged,            // nobody computed a prompt that goes on like this one
  no_snapshot,         // the state exists, but no point of it can be resumed
  evicted,             // it was computed, and left to make room
  store_failed,        // it was computed, and could not be kept
  corrupt,             // it was kept, and failed its check
  name_space,          // it belongs to another model, setting or tenant
  disabled,            // the request asked for no reuse, or for the
                       // log-probabilities of its prompt
  cheaper_to_compute,  // a restore would have taken longer
};
inline constexpr int kMissReasonCount = 9;

// "diverged", "no_snapshot", ..., "namespace"; nullptr for none.
const char* to_string(MissReason reason);

// Where the prompt's state came from. The four counts add up to the prompt's
// length, or to what of it was dealt with before the request ended.
struct CacheReport {
  int memory_tokens = 0;
  int disk_tokens = 0;
  int remote_tokens = 0;
  int evaluated_tokens = 0;
  MissReason miss_reason = MissReason::none;
  int miss_position = 0;  // first prompt position that was not reused
};

// Milliseconds of wall clock, measured by the engine.
struct Timings {
  double queue_ms = 0;      // from submit to admission
  double restore_ms = 0;    // fetching state from a slower tier
  double prompt_ms = 0;     // from admission to the first token
  double predicted_ms = 0;  // from the first token to the last
  int predicted_n = 0;      // tokens sampled
};

// A token's log-probability under the model: log-softmax of its logits as
// they came, before temperature, penalties and bias. Natural logarithm.
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct TokenLogprobs {
  float logprob = 0;              // of the token that stands there
  int rank = 1;                   // 1: no other one was likelier
  std::vector<TokenLogprob> top;  // the likeliest first, of equals the lowest
                                  // id; as many as were asked for
};

struct SampledToken {
  TokenId id = 0;
  std::optional<TokenLogprobs> logprobs = {};  // if they were asked for
};

// Of the prompt's tokens at positions start, start + 1, ... Position 0 has
// none: nothing stands before it. In order and without gaps, before the first
// SampledToken.
struct PromptLogprobs {
  int start = 1;
  std::vector<TokenLogprobs> tokens;
};

struct Finish {
  FinishReason reason = FinishReason::stop;
  CacheReport cache = {};
  Timings timings = {};
  std::string error = {};  // for FinishReason::error: one sentence for the
                           // client
};

struct Event {
  RequestId id = 0;
  std::variant<SampledToken, PromptLogprobs, Finish> what;
};

}  // namespace reprise
