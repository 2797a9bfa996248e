#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler_state.h"

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

Finish ending(FinishReason reason, std::string error = {}) {
  Finish finish;
  finish.reason = reason;
  finish.error = std::move(error);
  return finish;
}

}  // namespace

Scheduler::State::State(const SchedulerLimits& limits)
    : limits(sane(limits)), books(limits.block_count, limits.slot_count) {}

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
  CHECK(s->request.marks.size() <= kMarksMax, "{} marks",
        s->request.marks.size());
  s->stop_at_marks();
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
  if (const BlockAllocator* slots = books.slots()) {
    status.slots_free = slots->free_count();
    status.slots_cached = slots->cached_count();
    status.slots_held =
        slots->block_count() - status.slots_free - status.slots_cached;
    status.snapshots_evicted = books.index().snapshot_evictions();
  }
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
