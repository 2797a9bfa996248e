// What the engine says about a request: its tokens as they are sampled, then
// exactly one Finish.
#pragma once

#include <optional>
#include <string>
#include <variant>

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
  disabled,            // the request asked for no reuse
  cheaper_to_compute,  // a restore would have taken longer
};

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

struct Finish {
  FinishReason reason = FinishReason::stop;
  CacheReport cache = {};
  Timings timings = {};
  std::string error = {};  // for FinishReason::error: one sentence for the
                           // client
};

struct Event {
  RequestId id = 0;
  std::variant<TokenId, Finish> what;
};

}  // namespace reprise
