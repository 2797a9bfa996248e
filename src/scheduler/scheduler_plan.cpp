#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "scheduler/admission.h"
#include "scheduler/prefill_share.h"
#include "scheduler/scheduler_state.h"

namespace reprise {
namespace {

// Of the row [length, end).
int logits_wanted(const Sequence& s, int end) {
  if (s.scores()) return std::max(0, end - std::max(s.length, s.scored));
  return end == s.size() ? 1 : 0;
}

}  // namespace

// ---------------------------------------------------------------- admission

// Those that may be admitted now: a few, so that a long queue of long prompts
// costs a step nothing.
std::vector<Sequence*> Scheduler::State::front_of_queue() const {
  std::vector<Sequence*> front;
  const auto most = static_cast<std::size_t>(2 * limits.parallel);
  for (std::size_t i = 0; i < std::min(most, waiting.size()); ++i)
    front.push_back(waiting[i].get());
  return front;
}

// First come, first served: the first that does not fit keeps all others
// out. Only one that waits for another's prefix lets the next go ahead.
void Scheduler::State::admit() {
  for (Sequence* s : front_of_queue()) {
    if (static_cast<int>(running.size()) >= limits.parallel) return;
    if (held_back(*s, running, books.index())) {
      // It can go on from where both prompts part only if a snapshot is there.
      if (Sequence* owner = find_running(s->held_by))
        owner->add_stop(s->held_for / kQuantumTokens * kQuantumTokens);
      continue;
    }
    if (!try_admit(*s)) return;
    const auto at =
        std::find_if(waiting.begin(), waiting.end(),
                     [&](const SequencePtr& w) { return w.get() == s; });
    SequencePtr owned = std::move(*at);
    waiting.erase(at);
    const auto place =
        std::find_if(running.begin(), running.end(),
                     [&](const SequencePtr& r) { return r->age > s->age; });
    running.insert(place, std::move(owned));
  }
}

bool Scheduler::State::try_admit(Sequence& s) {
  int outstanding = 0;
  for (const auto& r : running) outstanding += books.outstanding(*r);
  s.rows_promised = rows_counted(s);
  const auto admission = books.admit(s, outstanding, running.empty());
  if (!admission.admitted) return false;
  s.running = true;
  s.length_admitted = s.length;
  s.rows_reused = s.length;
  s.tainted = false;
  s.goal = s.size();
  if (std::exchange(s.admitted_before, true)) return true;
  admitted.push_back(s.id);
  s.length_most = s.length;
  s.report.memory_tokens = s.length;
  s.report.miss_reason = s.caches() && !s.scores() ? admission.hit.miss_reason
                                                   : MissReason::disabled;
  s.report.miss_position = admission.hit.miss_position;
  const auto reason = static_cast<std::size_t>(s.report.miss_reason);
  ++counts.lookups.at(reason);
  counts.missed_tokens.at(reason) +=
      static_cast<std::size_t>(s.prompt_size - s.length);
  counts.prompt_tokens += static_cast<std::size_t>(s.prompt_size);
  counts.cached_tokens += static_cast<std::size_t>(s.length);
  return true;
}

// ----------------------------------------------------------------- planning

// Where a prefill may go in one step. One whose every position's logits are
// wanted goes quantum by quantum: they are a vocabulary wide. A snapshot is
// the state at the end of a step.
int Scheduler::State::goal_of(const Sequence& s) const {
  if (s.scores()) return quantum_end(s.length, s.size());
  return books.slots() != nullptr && s.caches() ? s.next_stop() : s.size();
}

// One token of everybody who decodes, and the prefill that fits beside.
std::vector<Scheduler::State::Wanted> Scheduler::State::wanted_rows() {
  std::vector<PrefillDemand> demands;
  int decoding = 0;
  for (const auto& s : running) {
    if (s->decodes()) {
      ++decoding;
    } else {
      demands.push_back({.length = s->length, .goal = goal_of(*s)});
    }
  }
  int budget = limits.step_tokens_max - decoding;
  if (decoding > 0)
    budget = std::min(budget, limits.prefill_tokens_beside_decode);
  std::vector<int> ends;
  if (!demands.empty()) ends = share_prefill(demands, budget, prefill_turn);

  std::vector<Wanted> wanted;
  auto end = ends.begin();
  for (const auto& s : running) {
    const int to = s->decodes() ? s->size() : *end++;
    if (to > s->length) wanted.push_back({s.get(), to});
  }
  return wanted;
}

std::vector<Scheduler::State::Wanted> Scheduler::State::isolated_row() {
  Sequence* s = find_running(isolated.front());
  CHECK(s != nullptr, "request {} is isolated and gone", isolated.front());
  std::uint64_t turn = 0;
  const auto ends = share_prefill({{.length = s->length, .goal = goal_of(*s)}},
                                  limits.prefill_tokens_beside_decode, turn);
  return {{s, ends[0]}};
}

// Rows are planned from the oldest to the youngest, and only younger ones are
// preempted: what is planned stays planned.
void Scheduler::State::plan_row(const Wanted& wanted) {
  Sequence& s = *wanted.sequence;
  if (!s.running) return;  // preempted for an older one
  PlannedRow row{.sequence = &s, .end = wanted.end, .reservation = {}};
  bool whole = false;
  while (!(whole = books.reserve(s, row.end, row.reservation))) {
    Sequence* victim = victim_for(s);
    if (victim == nullptr) break;
    preempt(*victim);
  }
  if (!whole && row.reservation.end == s.length && running.size() == 1) {
    // It has the pool to itself, and that has no room for a copy.
    CHECK(books.reclaim_tail(s), "request {} cannot go on", s.id);
    books.reserve(s, row.end, row.reservation);
  }
  row.end = std::min(row.end, row.reservation.end);
  if (row.end > s.length) {
    planned.push_back(std::move(row));
    return;
  }
  // Nothing to be had. The youngest makes room for the others; an older one
  // sits this step out until the younger have made their quantum.
  if (running.back().get() == &s && s.progressed()) preempt(s);
}

// Everyone who was given a turn sits out. Those admitted last have spares and
// can go on.
void Scheduler::State::plan_somebody() {
  for (auto at = running.rbegin(); at != running.rend(); ++at) {
    Sequence& s = **at;
    PlannedRow row{.sequence = &s, .end = 0, .reservation = {}};
    books.reserve(s, quantum_end(s.length, s.size()), row.reservation);
    row.end = row.reservation.end;
    if (row.end == s.length) continue;
    planned.push_back(std::move(row));
    return;
  }
  CHECK(running.empty(), "{} are running and none can go on", running.size());
}

Sequence* Scheduler::State::victim_for(const Sequence& s) const {
  for (auto at = running.rbegin(); at != running.rend(); ++at) {
    if ((*at)->age <= s.age) return nullptr;
    if ((*at)->progressed()) return at->get();
  }
  return nullptr;
}

void Scheduler::State::preempt(Sequence& s) {
  ++counts.preemptions;
  forget_isolation(s);
  SequencePtr owned = take_running(s);
  books.leave(s, BlockBooks::Leave::published);
  s.running = false;
  waiting.push_front(std::move(owned));
}

StepPlan Scheduler::State::describe() const {
  StepPlan plan;
  for (const auto& row : planned) {
    const Sequence& s = *row.sequence;
    if (auto copy = books.copy_of(s, row.reservation))
      plan.copies.push_back(*copy);
    plan.rows.push_back(
        {.id = s.id,
         .start = s.length,
         .tokens = {s.tokens.begin() + s.length, s.tokens.begin() + row.end},
         .blocks = {s.blocks.begin(), s.blocks.begin() + blocks_for(row.end)},
         .slot_from = s.slot,
         .slot_to = row.reservation.slot,
         .logits_wanted = logits_wanted(s, row.end)});
  }
  return plan;
}

}  // namespace reprise
