// Decides what each step computes. Pure: no MLX, no threads, no clock. The
// engine calls, over and over,
//
//   plan()  → what to run      (admits, reserves blocks, cuts prefill)
//   apply() → what it meant    (commits lengths, publishes blocks, finishes)
//
// A step that failed is reported with fail() instead: lengths, references and
// published blocks stay as they were before plan(), and the next plan() may
// cut differently. Not thread-safe: the engine's thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "request/event.h"
#include "request/request.h"
#include "scheduler/limits.h"
#include "scheduler/step_plan.h"

namespace reprise {

// What became of one row: the token sampled from its last logits where the
// row ends at the last known token of a reply that goes on, and what its
// logits say about prompt tokens where that was asked for.
struct RowOutput {
  std::optional<SampledToken> token;
  std::optional<PromptLogprobs> prompt;
};

// For each row of the plan, in order.
struct StepOutput {
  std::vector<RowOutput> rows;
};

// A running request as the sampler needs it. Valid until the scheduler is
// called again.
struct RequestView {
  const Request& request;  // without its prompt
  std::span<const TokenId> prompt;
  std::span<const TokenId> reply;
};

// Counts since the start, for /metrics, and the books of the moment.
struct SchedulerStatus {
  int waiting = 0;
  int running = 0;
  int blocks_free = 0;
  int blocks_cached = 0;  // held by the prefix index alone
  int blocks_held = 0;    // held by a running sequence
  std::size_t blocks_evicted = 0;
  // Of snapshots, as of blocks; all 0 for a model that keeps none.
  int slots_free = 0;
  int slots_cached = 0;
  int slots_held = 0;
  std::size_t snapshots_evicted = 0;
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t evaluated_tokens = 0;  // prompt and reply, committed
  std::size_t generated_tokens = 0;
  std::size_t steps = 0;
  std::size_t steps_failed = 0;
  std::size_t preemptions = 0;
  std::size_t requests_started_over = 0;
  std::size_t blocks_quarantined = 0;
  // Of admitted requests, by what kept them from reusing more: how many, and
  // how many of their prompt tokens had to be evaluated. Index: MissReason.
  std::array<std::size_t, kMissReasonCount> lookups{};
  std::array<std::size_t, kMissReasonCount> missed_tokens{};
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);
  ~Scheduler();

  // Takes a request into the queue. Errors: invalid, too_large (a prompt and
  // reply that the context, or the whole pool, can never hold; the message
  // has both numbers), busy (kInboxRequestsMax wait).
  Result<void> add(RequestId id, Request request);

  // Ends a request at once; committed rows are published if it caches. The
  // Finish event (cancelled) comes back from the next take_events(). False:
  // no such request. Not between plan() and apply() or fail().
  bool cancel(RequestId id);

  // The next step, or nothing when there is no work.
  std::optional<StepPlan> plan();

  // A request that runs.
  RequestView view(RequestId id) const;

  // The plan was run: commits it. Events: tokens, log-probabilities, finishes.
  void apply(StepOutput output);

  // The plan was not run, or not wholly: forgets it. Requests that it
  // admitted stay admitted, and what it evicted stays evicted. With `guilty`,
  // what that request had computed is not published, and its published blocks
  // are dropped as far as nobody else built on them. The row of a plan of one
  // is guilty. It is tried again; if it fails at the same place again, it
  // starts over from nothing, once, with the cache off: if it then passes that
  // place, the cached blocks that it had used are at fault, and quarantined.
  // If not, it is ended with FinishReason::error and the message.
  void fail(std::optional<RequestId> guilty, const std::string& message);

  // After fail() without a guilty row: the next plans hold one row each until
  // every row of the failed plan has been applied or failed alone.
  bool isolating() const;

  // Requests admitted for the first time since the last call, so that the
  // engine can stamp times.
  std::vector<RequestId> take_admitted();

  // Everything said since the last call, in order.
  std::vector<Event> take_events();

  bool idle() const;  // nothing waits, nothing runs
  SchedulerStatus status() const;

  // CHECKs free + held + cached = all, and the index's own books.
  void check_books() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
