// A scheduler and a fake model in a closed world without threads or clocks:
// what the engine does with a step, and the books checked after each.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/fake_runner.h"
#include "scheduler/scheduler.h"

namespace reprise::sim {

struct Outcome {
  Request request;
  std::vector<TokenId> reply;
  std::vector<PromptLogprobs> scores;  // as they came
  std::optional<Finish> finish;
  bool cancelled = false;  // by the test, at some moment
  bool doomed = false;     // its rows fail
};

class SimWorld {
 public:
  SimWorld(const SchedulerLimits& limits, int vocabulary);

  Result<void> add(RequestId id, Request request);
  void cancel(RequestId id);

  // One plan, run, apply or fail. False: no work. Checks the books.
  bool step();
  // Until there is no work; throws if that takes more than `steps_max`.
  void run(int steps_max = 100'000);

  // What must hold at the end, for every request. Empty if all is well.
  std::string complaint() const;

  Scheduler& scheduler() { return scheduler_; }
  FakeRunner& runner() { return runner_; }
  std::map<RequestId, Outcome>& outcomes() { return outcomes_; }

 private:
  void collect();
  std::string complaint_about(const Outcome& outcome) const;
  std::string wrong_scores(const Outcome& outcome) const;

  const int vocabulary_;
  const bool snapshots_;
  Scheduler scheduler_;
  FakeRunner runner_;
  std::map<RequestId, Outcome> outcomes_;
};

}  // namespace reprise::sim
