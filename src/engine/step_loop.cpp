#include "engine/step_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "base/check.h"
#include "engine/sample_step.h"

namespace reprise {
namespace {

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

Finish failed(const std::string& message) {
  Finish finish;
  finish.reason = FinishReason::error;
  finish.error = message;
  return finish;
}

}  // namespace

StepLoop::StepLoop(Runner& runner, const SchedulerLimits& limits,
                   SteadyClock now)
    : runner_(runner), now_(std::move(now)), scheduler_(limits) {}

void StepLoop::listen(const Submission& submission) {
  live_.emplace(submission.id, Live{.sink = submission.sink,
                                    .submitted = submission.submitted,
                                    .admitted = {},
                                    .first_token = {},
                                    .last_token = {}});
}

void StepLoop::add(Submission submission) {
  listen(submission);
  const RequestId id = submission.id;
  auto added = scheduler_.add(id, std::move(submission.request));
  if (!added) finish(id, failed(added.error().message));
}

void StepLoop::refuse(Submission submission, const std::string& message) {
  listen(submission);
  finish(submission.id, failed(message));
}

void StepLoop::cancel(RequestId id) {
  if (scheduler_.cancel(id)) dispatch();
}

bool StepLoop::step() {
  for (const RequestId id : std::exchange(deaf_, {})) cancel(id);
  const auto plan = scheduler_.plan();
  note_admitted();
  if (!plan) return false;
  const Time started = now_();
  const bool done = run_plan(*plan);
  dispatch();
  report(*plan, started, !done);
  // An idle engine checks its books: a leak is found where it was made.
  if (scheduler_.idle()) scheduler_.check_books();
  return true;
}

void StepLoop::note_admitted() {
  for (const RequestId id : scheduler_.take_admitted()) {
    Live& live = live_.at(id);
    live.was_admitted = true;
    live.admitted = now_();
  }
}

// Only what the runner and the sampler throw is a failed step; an exception
// of the scheduler's own means that its books cannot be trusted.
// False: it failed.
bool StepLoop::run_plan(const StepPlan& plan) {
  std::optional<StepOutput> output;
  try {
    const StepLogits logits = runner_.run(plan);
    output = sample_step(plan, logits, scheduler_);
  } catch (const std::exception& e) {
    fail(plan, fmt::format("The model failed: {}", e.what()));
    return false;
  } catch (...) {
    fail(plan, "The model failed.");
    return false;
  }
  if (!output) {
    fail(plan, "The model failed: its logits are not numbers.");
    return false;
  }
  scheduler_.apply(std::move(*output));
  return true;
}

void StepLoop::report(const StepPlan& plan, Time started, bool failed) const {
  if (!on_step_) return;
  StepReport report{.seconds = milliseconds(now_() - started) / 1000,
                    .rows = static_cast<int>(plan.rows.size()),
                    .tokens = 0,
                    .failed = failed};
  for (const auto& row : plan.rows)
    report.tokens += static_cast<int>(row.tokens.size());
  on_step_(report);
}

// One row alone is guilty. Of several, each is tried alone.
void StepLoop::fail(const StepPlan& plan, const std::string& message) {
  if (plan.rows.size() == 1) {
    spdlog::error("request {}: {}", plan.rows[0].id, message);
    scheduler_.fail(plan.rows[0].id, message);
    return;
  }
  spdlog::warn("a step of {} requests failed, trying each alone: {}",
               plan.rows.size(), message);
  scheduler_.fail(std::nullopt, message);
}

void StepLoop::dispatch() {
  for (Event& event : scheduler_.take_events()) {
    if (auto* done = std::get_if<Finish>(&event.what)) {
      finish(event.id, std::move(*done));
      continue;
    }
    Live& live = live_.at(event.id);
    if (std::holds_alternative<SampledToken>(event.what)) {
      live.last_token = now_();
      if (live.sampled++ == 0) live.first_token = live.last_token;
    }
    send(live, event);
  }
}

void StepLoop::send(Live& live, const Event& event) {
  if (!live.sink) return;
  try {
    live.sink(event);
  } catch (...) {
    spdlog::error("request {}: its receiver threw; cancelling", event.id);
    live.sink = nullptr;
    deaf_.push_back(event.id);
  }
}

void StepLoop::finish(RequestId id, Finish finish) {
  const auto at = live_.find(id);
  CHECK(at != live_.end(), "request {} ends twice", id);
  Live live = std::move(at->second);
  live_.erase(at);
  finish.timings = timings_of(live);
  send(live, {.id = id, .what = std::move(finish)});
}

Timings StepLoop::timings_of(const Live& live) const {
  const Time end = now_();
  Timings timings;
  timings.predicted_n = live.sampled;
  timings.queue_ms =
      milliseconds((live.was_admitted ? live.admitted : end) - live.submitted);
  if (!live.was_admitted) return timings;
  timings.prompt_ms =
      milliseconds((live.sampled > 0 ? live.first_token : end) - live.admitted);
  if (live.sampled > 0)
    timings.predicted_ms = milliseconds(live.last_token - live.first_token);
  return timings;
}

void StepLoop::cancel_all() {
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const RequestId id : ids) cancel(id);
  CHECK(live_.empty(), "{} requests do not end", live_.size());
}

void StepLoop::abandon_all(const std::string& message) {
  while (!live_.empty()) finish(live_.begin()->first, failed(message));
}

}  // namespace reprise
