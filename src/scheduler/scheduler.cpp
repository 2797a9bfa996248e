#include "scheduler/scheduler.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "scheduler/admission.h"
#include "scheduler/block_books.h"
#include "scheduler/prefill_share.h"
#include "scheduler/sequence.h"

namespace reprise {
namespace {

SchedulerLimits sane(SchedulerLimits limits) {
  CHECK(limits.parallel > 0 && limits.context_tokens > 0);
  CHECK(limits.slot_count == 0 || limits.slot_count >= 2 * limits.parallel,
        "{} slots for {} sequences", limits.slot_count, limits.parallel);
  limits.step_tokens_max =
      std::max(limits.step_tokens_max, limits.parallel + kQuantumTokens);
  return limits;
}

// Where a prefill may go in one step. One whose every position's logits are
// wanted goes quantum by quantum: they are a vocabulary wide. A snapshot is
// the state at the end of a step.
int prefill_goal(const Sequence& s, bool snapshots) {
  if (s.scores()) return quantum_end(s.length, s.size());
  return snapshots && s.caches() ? s.next_stop() : s.size();
}

// Of the row [length, end).
int logits_wanted(const Sequence& s, int end) {
  if (s.scores()) return std::max(0, end - std::max(s.length, s.scored));
  return end == s.size() ? 1 : 0;
}

Finish ending(FinishReason reason, std::string error = {}) {
  Finish finish;
  finish.reason = reason;
  finish.error = std::move(error);
  return finish;
}

}  // namespace

struct Scheduler::State {
  explicit State(const SchedulerLimits& limits)
      : limits(sane(limits)), books(limits.block_count, limits.slot_count) {}

  struct Wanted {
    Sequence* sequence = nullptr;
    int end = 0;
  };
  struct PlannedRow {
    Sequence* sequence = nullptr;
    int end = 0;
    Reservation reservation;
  };

  void admit();
  bool try_admit(Sequence& sequence);
  std::vector<Sequence*> front_of_queue() const;

  std::vector<Wanted> wanted_rows();
  std::vector<Wanted> isolated_row();
  void plan_row(const Wanted& wanted);
  void plan_somebody();
  Sequence* victim_for(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  void start_over(Sequence& sequence);
  void blame_cache(Sequence& sequence);
  StepPlan describe() const;
  int goal_of(const Sequence& sequence) const {
    return prefill_goal(sequence, books.slots() != nullptr);
  }

  void apply_row(PlannedRow& row, RowOutput output);
  void take_scores(Sequence& sequence, std::optional<PromptLogprobs> scores);
  void take_token(Sequence& sequence, SampledToken token);
  void finish(Sequence& sequence, Finish finish, BlockBooks::Leave how);
  void forget_isolation(const Sequence& sequence);
  SequencePtr take_running(const Sequence& sequence);
  Sequence* find_running(RequestId id) const;

  const SchedulerLimits limits;
  BlockBooks books;
  std::deque<SequencePtr> waiting;   // the next in front
  std::vector<SequencePtr> running;  // by age, the oldest first
  std::vector<PlannedRow> planned;   // between plan() and apply() or fail()
  std::deque<RequestId> isolated;    // still to be tried alone
  std::vector<RequestId> admitted;
  std::vector<Event> events;
  std::uint64_t next_age = 0;
  std::uint64_t prefill_turn = 0;
  SchedulerStatus counts;  // the sums; the books of the moment come fresh
};

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

// Its state is not believed, whoever computed it.
void Scheduler::State::start_over(Sequence& s) {
  ++counts.requests_started_over;
  forget_isolation(s);
  SequencePtr owned = take_running(s);
  s.suspect_length = s.length;
  s.suspect_rows = s.rows_reused;
  books.leave(s, BlockBooks::Leave::distrusted);
  s.running = false;
  s.starts_over = true;
  s.report.memory_tokens = 0;
  if (s.suspect_rows > 0) s.report.miss_reason = MissReason::corrupt;
  s.report.miss_position = 0;
  waiting.push_front(std::move(owned));
}

// It got past the place where it had failed, with all else the same.
void Scheduler::State::blame_cache(Sequence& s) {
  if (s.suspect_rows == 0 || s.length <= s.suspect_length) return;
  const auto dropped = books.quarantine(
      std::span(s.tokens).first(static_cast<std::size_t>(s.suspect_rows)));
  counts.blocks_quarantined += dropped.size();
  s.suspect_rows = 0;
  // Others may be built on them. They go on, and what they have made stays
  // theirs.
  for (const auto& other : running)
    other->tainted |= std::any_of(
        other->blocks.begin(), other->blocks.end(), [&](BlockId id) {
          return std::find(dropped.begin(), dropped.end(), id) != dropped.end();
        });
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

// ---------------------------------------------------------------- the result

void Scheduler::State::apply_row(PlannedRow& row, RowOutput output) {
  Sequence& s = *row.sequence;
  const bool prefilled = s.prefills();
  counts.evaluated_tokens += static_cast<std::size_t>(row.end - s.length);
  books.commit(s, row.reservation, row.end);
  if (s.starts_over) blame_cache(s);
  if (s.scores()) take_scores(s, std::move(output.prompt));
  const bool complete = s.length == s.size();
  CHECK((complete && s.reply_left() > 0) == output.token.has_value(),
        "request {}: {} of {} rows", s.id, s.length, s.size());
  if (!complete) return;
  if (prefilled && s.caches()) {
    const auto front = front_of_queue();
    if (tail_wanted(s, front)) books.publish_tail(s);
  }
  if (output.token)
    take_token(s, std::move(*output.token));
  else
    finish(s, ending(FinishReason::length), BlockBooks::Leave::published);
}

// Rows up to the committed length have given their logits.
void Scheduler::State::take_scores(Sequence& s,
                                   std::optional<PromptLogprobs> scores) {
  const int scored = std::min(s.length, s.prompt_size - 1);
  if (scored <= s.scored) return;
  CHECK(scores && scores->start == s.scored + 1 &&
            static_cast<int>(scores->tokens.size()) == scored - s.scored,
        "request {}: log-probabilities of positions {} to {} are missing", s.id,
        s.scored + 1, scored);
  s.scored = scored;
  events.push_back({.id = s.id, .what = std::move(*scores)});
}

void Scheduler::State::take_token(Sequence& s, SampledToken token) {
  const TokenId id = token.id;
  s.tokens.push_back(id);
  ++counts.generated_tokens;
  events.push_back({.id = s.id, .what = std::move(token)});
  const auto& stops = s.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
    finish(s, ending(FinishReason::stop), BlockBooks::Leave::published);
  } else if (s.reply_left() == 0) {
    finish(s, ending(FinishReason::length), BlockBooks::Leave::published);
  }
}

// Ends a running request.
void Scheduler::State::finish(Sequence& s, Finish finish,
                              BlockBooks::Leave how) {
  forget_isolation(s);
  const SequencePtr owned = take_running(s);
  finish.cache = s.final_report();
  books.leave(s, how);
  events.push_back({.id = s.id, .what = std::move(finish)});
}

void Scheduler::State::forget_isolation(const Sequence& s) {
  std::erase(isolated, s.id);
}

SequencePtr Scheduler::State::take_running(const Sequence& s) {
  const auto at =
      std::find_if(running.begin(), running.end(),
                   [&](const SequencePtr& r) { return r.get() == &s; });
  CHECK(at != running.end(), "request {} does not run", s.id);
  SequencePtr owned = std::move(*at);
  running.erase(at);
  return owned;
}

Sequence* Scheduler::State::find_running(RequestId id) const {
  for (const auto& s : running)
    if (s->id == id) return s.get();
  return nullptr;
}

// --------------------------------------------------------------- the contract

Scheduler::Scheduler(const SchedulerLimits& limits)
    : state_(std::make_unique<State>(limits)) {}

Scheduler::~Scheduler() = default;

Result<void> Scheduler::add(RequestId id, Request request) {
  CHECK(id != 0);
  if (auto ok = check_request(request, state_->limits); !ok) return ok.error();
  const auto fresh =
      std::count_if(state_->waiting.begin(), state_->waiting.end(),
                    [](const SequencePtr& s) { return !s->admitted_before; });
  if (static_cast<std::size_t>(fresh) >= kInboxRequestsMax)
    return Error{
        .kind = ErrorKind::busy,
        .message = fmt::format(
            "{} requests are waiting already; try again later.", fresh)};
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->age = state_->next_age++;
  s->prompt_size = static_cast<int>(request.prompt.size());
  s->tokens = std::move(request.prompt);
  s->request = std::move(request);
  state_->waiting.push_back(std::move(s));
  return {};
}

bool Scheduler::cancel(RequestId id) {
  CHECK(state_->planned.empty(), "a step is being run");
  Finish cancelled = ending(FinishReason::cancelled);
  if (Sequence* s = state_->find_running(id)) {
    state_->finish(*s, cancelled, BlockBooks::Leave::published);
    return true;
  }
  auto& waiting = state_->waiting;
  const auto at =
      std::find_if(waiting.begin(), waiting.end(),
                   [&](const SequencePtr& s) { return s->id == id; });
  if (at == waiting.end()) return false;
  cancelled.cache = (*at)->final_report();
  state_->events.push_back({.id = id, .what = std::move(cancelled)});
  waiting.erase(at);
  return true;
}

std::optional<StepPlan> Scheduler::plan() {
  CHECK(state_->planned.empty(), "plan() before apply() or fail()");
  while (isolating() && state_->planned.empty()) {
    const RequestId id = state_->isolated.front();
    state_->plan_row(state_->isolated_row().front());
    // It could have no blocks: its turn comes among the others.
    if (state_->planned.empty()) std::erase(state_->isolated, id);
  }
  if (state_->planned.empty()) {
    state_->admit();
    for (const auto& wanted : state_->wanted_rows()) state_->plan_row(wanted);
    if (state_->planned.empty()) state_->plan_somebody();
  }
  if (state_->planned.empty()) {
    CHECK(state_->waiting.empty(), "{} wait for nobody",
          state_->waiting.size());
    return std::nullopt;
  }
  return state_->describe();
}

RequestView Scheduler::view(RequestId id) const {
  const Sequence* s = state_->find_running(id);
  CHECK(s != nullptr, "request {} does not run", id);
  const std::span<const TokenId> tokens(s->tokens);
  const auto prompt_size = static_cast<std::size_t>(s->prompt_size);
  return {.request = s->request,
          .prompt = tokens.first(prompt_size),
          .reply = tokens.subspan(prompt_size)};
}

void Scheduler::apply(StepOutput output) {
  auto planned = std::exchange(state_->planned, {});
  CHECK(!planned.empty() && planned.size() == output.rows.size(),
        "{} rows, {} outputs", planned.size(), output.rows.size());
  ++state_->counts.steps;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    state_->forget_isolation(*planned[i].sequence);
    state_->apply_row(planned[i], std::move(output.rows[i]));
  }
}

void Scheduler::fail(std::optional<RequestId> guilty,
                     const std::string& message) {
  auto planned = std::exchange(state_->planned, {});
  CHECK(!planned.empty(), "fail() without a plan");
  ++state_->counts.steps_failed;
  // The last first: blocks go back in the order they came.
  for (auto row = planned.rbegin(); row != planned.rend(); ++row)
    state_->books.undo(*row->sequence, row->reservation);
  if (planned.size() == 1) guilty = planned[0].sequence->id;
  if (guilty) {
    Sequence* s = state_->find_running(*guilty);
    CHECK(s != nullptr, "request {} is guilty and does not run", *guilty);
    if (std::exchange(s->failed_length, s->length) != s->length) return;
    if (s->starts_over)
      state_->finish(*s, ending(FinishReason::error, message),
                     BlockBooks::Leave::distrusted);
    else
      state_->start_over(*s);
    return;
  }
  state_->isolated.clear();
  for (const auto& row : planned) state_->isolated.push_back(row.sequence->id);
}

bool Scheduler::isolating() const {
  return !state_->isolated.empty();
}

std::vector<RequestId> Scheduler::take_admitted() {
  return std::exchange(state_->admitted, {});
}

std::vector<Event> Scheduler::take_events() {
  return std::exchange(state_->events, {});
}

bool Scheduler::idle() const {
  return state_->waiting.empty() && state_->running.empty();
}

SchedulerStatus Scheduler::status() const {
  SchedulerStatus status = state_->counts;
  const auto& books = state_->books;
  status.waiting = static_cast<int>(state_->waiting.size());
  status.running = static_cast<int>(state_->running.size());
  status.blocks_free = books.allocator().free_count();
  status.blocks_cached = books.index().evictable_count();
  status.blocks_held = books.allocator().block_count() - status.blocks_free -
                       status.blocks_cached;
  status.blocks_evicted = books.index().evictions();
  return status;
}

void Scheduler::check_books() const {
  CHECK(state_->planned.empty(), "a step is being run");
  std::vector<const Sequence*> sequences;
  for (const auto& s : state_->running) sequences.push_back(s.get());
  for (const auto& s : state_->waiting) {
    CHECK(s->blocks.empty() && s->spare.empty(),
          "request {} waits and holds blocks", s->id);
  }
  state_->books.check(sequences);
}

}  // namespace reprise
