// One request on its way through the scheduler: its tokens so far, how many
// of them have committed rows, and the blocks where those rows lie. Plain
// data; the rules are in block_books.h, admission.h and scheduler.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "prefix/block_allocator.h"
#include "request/event.h"
#include "request/request.h"

namespace reprise {

struct Sequence {
  RequestId id = 0;
  std::uint64_t age = 0;  // order of arrival: the smallest is the oldest
  Request request;        // its prompt has moved to the front of `tokens`
  int prompt_size = 0;
  std::vector<TokenId> tokens;  // prompt and reply: all that is known

  // Rows [0, length) are committed. The last known token of a running reply
  // has no row yet: it is evaluated to get the next one.
  int length = 0;
  // Table: row p lies in blocks[p / 256]. References are the sequence's own.
  // Never writes to a block with more than one reference.
  std::vector<BlockId> blocks;
  // Reserved at admission, so that the first quantum needs nobody's leave.
  std::vector<BlockId> spare;

  // Prompt positions whose logits have been used, of those that are wanted.
  int scored = 0;

  // Snapshot models: the slot with the state at `length`, a reference of its
  // own; none at 0. Positions where a snapshot is wanted besides those that
  // every prompt has, and what of them it gave to the index.
  SlotId slot = kNoSlot;
  std::vector<int> stops;
  struct Snapshot {
    int position = 0;
    SlotId slot = kNoSlot;
  };
  std::vector<Snapshot> kept;

  // Since the last admission.
  bool running = false;
  int length_admitted = 0;  // what the hit gave
  int rows_reused = 0;      // as much of it as came from the index
  int goal = 0;             // known tokens: prefill ends there
  int rows_promised = 0;    // what admission counted

  // Since the first admission.
  bool admitted_before = false;
  int length_most = 0;  // most rows ever committed
  CacheReport report;

  // Where it failed alone last. Failing there once may be chance; after the
  // second time it is computed from nothing, without the cache. What of the
  // index it had used before is suspect until it has passed that place.
  int failed_length = -1;
  bool starts_over = false;
  int suspect_length = 0;
  int suspect_rows = 0;
  // Since the last admission: it uses what was quarantined meanwhile.
  bool tainted = false;

  // In-flight sharing: the request whose prefill this one waits for, and the
  // longest prefix that it has ever waited for.
  RequestId held_by = 0;
  int held_for = 0;

  int size() const { return static_cast<int>(tokens.size()); }
  int reply_size() const { return size() - prompt_size; }
  int reply_left() const { return request.max_tokens - reply_size(); }
  bool caches() const {
    return request.cache_prompt && !starts_over && !tainted;
  }

  int pending() const { return size() - length; }  // known, without a row
  // Where a snapshot is to be kept: at the last whole quantum before the
  // prompt's end (so that the same prompt has a hit, and still a token to
  // evaluate), at its end, at every kSnapshotTokens and at `stops`.
  bool snapshot_due(int position) const;
  int before_end() const {
    return (prompt_size - 1) / kQuantumTokens * kQuantumTokens;
  }
  void add_stop(int position);
  // Of the request's marks those that save a quantum or more: what lies closer
  // to the one before is as quickly computed.
  void stop_at_marks();
  // The next such position behind `length`, at most size().
  int next_stop() const;

  bool decodes() const { return pending() == 1; }

  // Logits of prompt positions are still wanted, from `scored` on. The last
  // position says nothing about the prompt.
  bool scores() const {
    return request.prompt_logprobs && scored < prompt_size - 1;
  }
  // The most rows that a hit may give: what comes after is evaluated for its
  // logits.
  int hit_max() const { return scores() ? scored : size() - 1; }
  bool prefills() const { return length < goal; }

  // Rows that it can have at most: the last reply token needs none.
  int rows_max() const {
    return prompt_size + std::max(request.max_tokens, 1) - 1;
  }

  // Counts from the first admission: what a preemption made it evaluate
  // twice is none of the client's business.
  CacheReport final_report() const {
    CacheReport result = report;
    result.evaluated_tokens =
        std::min(length_most, prompt_size) - result.memory_tokens;
    return result;
  }

  // Between two preemptions lies a quantum of progress.
  bool progressed() const { return length - length_admitted >= kQuantumTokens; }
};

inline int Sequence::next_stop() const {
  int next = (length / kSnapshotTokens + 1) * kSnapshotTokens;
  for (const int stop : {before_end(), prompt_size})
    if (stop > length) next = std::min(next, stop);
  for (const int stop : stops)
    if (stop > length) next = std::min(next, stop);
  return std::min(next, size());
}

inline void Sequence::add_stop(int position) {
  if (position <= length) return;
  if (std::find(stops.begin(), stops.end(), position) == stops.end())
    stops.push_back(position);
}

inline void Sequence::stop_at_marks() {
  int last = 0;
  for (const int mark : request.marks) {
    CHECK(mark >= last && mark < prompt_size, "mark {} of {} tokens", mark,
          prompt_size);
    if (mark - last < kQuantumTokens) continue;
    add_stop(mark);
    last = mark;
  }
}

inline bool Sequence::snapshot_due(int position) const {
  return position == before_end() || position == prompt_size ||
         position % kSnapshotTokens == 0 ||
         std::find(stops.begin(), stops.end(), position) != stops.end();
}

using SequencePtr = std::unique_ptr<Sequence>;

}  // namespace reprise
