// Scheduler and runner driven by hand, step by step, on this thread: what
// the engine does, without its thread, and with every row of logits kept.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/runner.h"
#include "engine/sample_step.h"
#include "scheduler/scheduler.h"

namespace reprise {

class ScheduledRun {
 public:
  struct Reply {
    std::vector<TokenId> tokens;
    std::vector<std::vector<float>> logits;      // that chose each token
    std::vector<TokenLogprobs> logprobs;         // of each token
    std::vector<TokenLogprobs> prompt_logprobs;  // of tokens 1, 2, ...
    std::optional<Finish> finish;

    bool operator==(const Reply& other) const {
      return tokens == other.tokens && logits == other.logits;
    }
  };

  ScheduledRun(Runner& runner, int parallel)
      : runner_(runner), scheduler_(limits(runner, parallel)) {}

  RequestId add(Request request) {
    const RequestId id = ++last_id_;
    const auto added = scheduler_.add(id, std::move(request));
    if (!added) throw std::runtime_error(added.error().message);
    return id;
  }

  // One step; false when there is nothing to do. What the runner throws ends
  // as Scheduler::fail and is remembered in `failures`.
  bool step() {
    const auto plan = scheduler_.plan();
    collect();
    if (!plan) return false;
    try {
      const StepLogits logits = runner_.run(*plan);
      auto output = sample_step(*plan, logits, scheduler_);
      if (!output) throw std::runtime_error("logits are not numbers");
      keep(*plan, logits);
      scheduler_.apply(std::move(*output));
    } catch (const std::exception& e) {
      failures.push_back(e.what());
      const bool alone = plan->rows.size() == 1 && fail_alone;
      scheduler_.fail(alone ? std::optional(plan->rows[0].id) : std::nullopt,
                      e.what());
    }
    collect();
    scheduler_.check_books();
    return true;
  }

  void run() {
    while (step()) {
    }
  }

  // Adds the request, runs everything to its end, gives its reply.
  Reply run(Request request) {
    const RequestId id = add(std::move(request));
    run();
    return replies[id];
  }

  Scheduler& scheduler() { return scheduler_; }

  std::map<RequestId, Reply> replies;
  std::vector<std::string> failures;
  bool fail_alone = false;  // a row that fails alone is guilty

 private:
  static SchedulerLimits limits(const Runner& runner, int parallel) {
    SchedulerLimits limits;
    limits.parallel = parallel;
    limits.context_tokens = runner.info().context_tokens;
    limits.block_count = runner.info().block_count;
    limits.slot_count = runner.info().slot_count;
    return limits;
  }

  // The logits that choose a token; those of prompt positions before it are
  // judged by what becomes of them.
  void keep(const StepPlan& plan, const StepLogits& logits) {
    int next = 0;
    for (const StepRow& row : plan.rows) {
      next += row.logits_wanted;
      const RequestView view = scheduler_.view(row.id);
      const std::size_t end = row.start + row.tokens.size();
      if (end < view.prompt.size() + view.reply.size()) continue;
      const auto values = logits.row(next - 1);
      replies[row.id].logits.emplace_back(values.begin(), values.end());
    }
  }

  void collect() {
    for (Event& event : scheduler_.take_events()) {
      if (auto* token = std::get_if<SampledToken>(&event.what)) {
        replies[event.id].tokens.push_back(token->id);
        if (token->logprobs)
          replies[event.id].logprobs.push_back(std::move(*token->logprobs));
      } else if (auto* part = std::get_if<PromptLogprobs>(&event.what)) {
        auto& all = replies[event.id].prompt_logprobs;
        all.insert(all.end(), part->tokens.begin(), part->tokens.end());
      } else {
        replies[event.id].finish = std::get<Finish>(event.what);
      }
    }
  }

  Runner& runner_;
  Scheduler scheduler_;
  RequestId last_id_ = 0;
};

}  // namespace reprise
