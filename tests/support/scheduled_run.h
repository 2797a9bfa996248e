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
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"

namespace reprise {

class ScheduledRun {
 public:
  struct Reply {
    std::vector<TokenId> tokens;
    std::vector<std::vector<float>> logits;  // that chose each token
    std::optional<Finish> finish;

    bool operator==(const Reply& other) const {
      return tokens == other.tokens && logits == other.logits;
    }
  };

  ScheduledRun(Runner& runner, int parallel)
      : runner_(runner), scheduler_(limits(runner, parallel)) {}

  RequestId add(Request request) {
    const RequestId id = ++last_id_;
    temperature_[id] = request.sampling;
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
      scheduler_.apply(sampled(*plan, logits));
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
    return limits;
  }

  StepOutput sampled(const StepPlan& plan, const StepLogits& logits) {
    StepOutput output;
    int next = 0;
    for (const StepRow& row : plan.rows) {
      if (!row.wants_logits) {
        output.tokens.push_back(std::nullopt);
        continue;
      }
      const auto values = logits.row(next++);
      Reply& reply = replies[row.id];
      reply.logits.emplace_back(values.begin(), values.end());
      output.tokens.push_back(
          sample(values, temperature_[row.id], int(reply.logits.size()) - 1));
    }
    return output;
  }

  void collect() {
    for (const Event& event : scheduler_.take_events()) {
      if (const auto* token = std::get_if<TokenId>(&event.what))
        replies[event.id].tokens.push_back(*token);
      else
        replies[event.id].finish = std::get<Finish>(event.what);
    }
  }

  Runner& runner_;
  Scheduler scheduler_;
  std::map<RequestId, SamplingParams> temperature_;
  RequestId last_id_ = 0;
};

}  // namespace reprise
