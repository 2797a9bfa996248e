#include "sim_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/limits.h"
#include "engine/sample_step.h"
#include "sampling/sampler.h"

namespace reprise::sim {

SimWorld::SimWorld(const SchedulerLimits& limits, int vocabulary)
    : vocabulary_(vocabulary),
      snapshots_(limits.slot_count > 0),
      scheduler_(limits),
      runner_({.vocabulary = vocabulary,
               .context_tokens = limits.context_tokens,
               .block_count = limits.block_count,
               .slot_count = limits.slot_count,
               .throws_at_step = {},
               .throws_at_row = {},
               .nan_logits = {},
               .during_step = {}}) {}

Result<void> SimWorld::add(RequestId id, Request request) {
  runner_.expect(id, request.prompt);
  auto added = scheduler_.add(id, request);
  if (added) outcomes_[id].request = std::move(request);
  return added;
}

void SimWorld::cancel(RequestId id) {
  if (scheduler_.cancel(id)) outcomes_[id].cancelled = true;
  collect();
}

void SimWorld::collect() {
  for (auto& event : scheduler_.take_events()) {
    auto& outcome = outcomes_.at(event.id);
    if (outcome.finish)
      throw std::logic_error(
          fmt::format("request {} speaks after its end", event.id));
    if (const auto* token = std::get_if<SampledToken>(&event.what))
      outcome.reply.push_back(token->id);
    else if (auto* scores = std::get_if<PromptLogprobs>(&event.what))
      outcome.scores.push_back(std::move(*scores));
    else
      outcome.finish = std::get<Finish>(event.what);
  }
}

bool SimWorld::step() {
  const auto plan = scheduler_.plan();
  if (!plan) {
    scheduler_.check_books();
    return false;
  }
  const bool alone = plan->rows.size() == 1;
  const auto guilty = alone ? std::optional(plan->rows[0].id) : std::nullopt;
  try {
    const auto logits = runner_.run(*plan);
    auto output = sample_step(*plan, logits, scheduler_);
    if (output)
      scheduler_.apply(std::move(*output));
    else
      scheduler_.fail(guilty, "not a number");
  } catch (const FakeRunnerLie&) {
    throw;  // the scheduler's fault: the test's business
  } catch (const std::runtime_error& e) {
    scheduler_.fail(guilty, e.what());
  }
  collect();
  scheduler_.check_books();
  return true;
}

void SimWorld::run(int steps_max) {
  for (int i = 0; step(); ++i)
    if (i >= steps_max) throw std::logic_error("it does not come to an end");
}

// Positions come in order, without gaps, and say what the model says alone.
std::string SimWorld::wrong_scores(const Outcome& outcome) const {
  const auto& prompt = outcome.request.prompt;
  int next = 1;
  for (const auto& part : outcome.scores) {
    if (part.start != next) return "its log-probabilities have a gap";
    for (const auto& token : part.tokens) {
      const auto logits = FakeRunner::logits_after(
          std::span(prompt).first(static_cast<std::size_t>(next)), vocabulary_);
      const auto want = logprobs_of(logits, prompt.at(next), 0);
      if (token.logprob != want.logprob || token.rank != want.rank)
        return fmt::format("its log-probability at {} is wrong", next);
      ++next;
    }
  }
  const bool all = next == static_cast<int>(prompt.size());
  if (outcome.request.prompt_logprobs && !outcome.reply.empty() && !all)
    return "its log-probabilities are not complete";
  if (!outcome.request.prompt_logprobs && !outcome.scores.empty())
    return "it did not ask for log-probabilities";
  return {};
}

std::string SimWorld::complaint_about(const Outcome& outcome) const {
  if (!outcome.finish) return "it never ended";
  const auto& finish = *outcome.finish;
  const auto& request = outcome.request;
  const auto alone = FakeRunner::reply_alone(request, vocabulary_);
  const auto reason = finish.reason;
  if (outcome.doomed && reason == FinishReason::error) return {};
  if (reason == FinishReason::error)
    return "it failed and is innocent: " + finish.error;
  if (const auto wrong = wrong_scores(outcome); !wrong.empty()) return wrong;
  if (outcome.cancelled != (reason == FinishReason::cancelled))
    return "it was not cancelled as the test did";
  if (outcome.cancelled
          ? !std::equal(
                outcome.reply.begin(), outcome.reply.end(), alone.begin(),
                alone.begin() + std::min(outcome.reply.size(), alone.size()))
          : outcome.reply != alone)
    return fmt::format("its reply of {} tokens is not the one of {} alone",
                       outcome.reply.size(), alone.size());
  const auto& cache = finish.cache;
  const int prompt = static_cast<int>(request.prompt.size());
  const bool scored = request.prompt_logprobs && prompt > 1;
  const int sum = cache.memory_tokens + cache.evaluated_tokens;
  if (outcome.reply.empty() ? sum > prompt : sum != prompt)
    return fmt::format("{} cached + {} evaluated of {}", cache.memory_tokens,
                       cache.evaluated_tokens, prompt);
  if (outcome.cancelled && outcome.reply.empty()) return {};
  if ((!request.cache_prompt || scored) &&
      (cache.memory_tokens != 0 || cache.miss_reason != MissReason::disabled))
    return "it used what it asked not to use";
  if (request.cache_prompt && !scored && !snapshots_ &&
      (cache.memory_tokens == prompt - 1) !=
          (cache.miss_reason == MissReason::none))
    return "its miss reason is not that of its hit";
  const bool stopped =
      !request.stop_tokens.empty() && !alone.empty() &&
      std::find(request.stop_tokens.begin(), request.stop_tokens.end(),
                alone.back()) != request.stop_tokens.end();
  if (!outcome.cancelled && (reason == FinishReason::stop) != stopped)
    return "its finish reason is wrong";
  return {};
}

std::string SimWorld::complaint() const {
  for (const auto& [id, outcome] : outcomes_) {
    const auto complaint = complaint_about(outcome);
    if (!complaint.empty()) return fmt::format("request {}: {}", id, complaint);
  }
  const auto status = scheduler_.status();
  if (status.blocks_held != 0)
    return fmt::format("{} blocks are held by nobody", status.blocks_held);
  // Before each preemption lies a quantum of progress.
  if (status.preemptions * kQuantumTokens > status.evaluated_tokens)
    return fmt::format("{} preemptions for {} evaluated tokens",
                       status.preemptions, status.evaluated_tokens);
  return {};
}

}  // namespace reprise::sim
