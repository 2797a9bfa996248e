// Who may enter: what can never be served, and who had better wait a moment
// for a prefix that another request is just computing.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "prefix/prefix_index.h"
#include "scheduler/limits.h"
#include "scheduler/sequence.h"

namespace reprise {

// Whether the request can be served at all. Errors: invalid (an empty prompt,
// max_tokens < 1), too_large (prompt and reply against the context, or
// against the whole pool; the message has both numbers).
Result<void> check_request(const Request& request,
                           const SchedulerLimits& limits);

// Rows that admission counts: all known tokens and min(what is left, 256) of
// reply.
int rows_counted(const Sequence& sequence);

// In-flight sharing. True while a running prefill is about to publish a
// prefix of `waiting` that is at least a quantum longer than what the index
// has: computing it twice would be a waste. Each wait is for a prefix longer
// than those waited for before, so that it cannot go on for ever; it ends
// when that prefill has published, ended or failed. Notes the wait in
// `waiting`.
bool held_back(Sequence& waiting, std::span<const SequencePtr> running,
               const PrefixIndex& index);

// True if one of `waiting` would go on from the partly filled last block of
// `sequence`, whose prefill has just ended.
bool tail_wanted(const Sequence& sequence,
                 std::span<const Sequence* const> waiting);

}  // namespace reprise
