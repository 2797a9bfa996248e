// The numbers a scheduler works within.
#pragma once

namespace reprise {

struct SchedulerLimits {
  int parallel = 4;        // sequences in computation at once
  int context_tokens = 0;  // prompt + reply of one request
  int block_count = 0;     // of the pool
  // Of snapshots, for a model that keeps any; then at least 2 * parallel: a
  // step reads one of each sequence and writes another. 0: its state can be
  // cut anywhere.
  int slot_count = 0;
  // In one step, over all rows. Raised to parallel + 64 if it is less, so
  // that every step has room for a token of each and one quantum.
  int step_tokens_max = 512;
  // While anybody decodes, a step holds at most this many prefill tokens
  // (rounded to quanta), so that running replies keep moving.
  int prefill_tokens_beside_decode = 128;
};

}  // namespace reprise
