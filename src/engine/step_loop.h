// What the engine's thread does, without the thread: takes requests, runs one
// step after the other, tells each request's sink what came of it. One
// thread; the tests call it directly.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/runner.h"
#include "scheduler/scheduler.h"

namespace reprise {

class StepLoop {
 public:
  // Borrows the runner.
  StepLoop(Runner& runner, const SchedulerLimits& limits, SteadyClock now);

  // Errors of Scheduler::add reach the sink as a Finish.
  void add(Submission submission);
  // Ends it at once with an error.
  void refuse(Submission submission, const std::string& message);
  void cancel(RequestId id);

  // Called after each step.
  void on_step(std::function<void(const StepReport&)> observer) {
    on_step_ = std::move(observer);
  }

  // One step: plan, run, sample, apply. A step that throws or gives logits
  // that are not numbers costs only the request whose row did. False: there
  // was nothing to do. Throws only what the scheduler itself throws.
  bool step();

  // Ends all requests, by the scheduler's books, with cancelled.
  void cancel_all();
  // Ends all requests with an error, whatever state the scheduler is in.
  void abandon_all(const std::string& message);

  SchedulerStatus status() const { return scheduler_.status(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Live {
    EventSink sink;
    Time submitted, admitted, first_token, last_token;
    bool was_admitted = false;
    int sampled = 0;
  };

  void listen(const Submission& submission);
  void note_admitted();
  bool run_plan(const StepPlan& plan);
  void report(const StepPlan& plan, Time started, bool failed) const;
  void fail(const StepPlan& plan, const std::string& message);
  void dispatch();
  void send(Live& live, const Event& event);
  void finish(RequestId id, Finish finish);
  Timings timings_of(const Live& live) const;

  Runner& runner_;
  const SteadyClock now_;
  std::function<void(const StepReport&)> on_step_;
  Scheduler scheduler_;
  std::map<RequestId, Live> live_;
  std::vector<RequestId> deaf_;  // their sinks threw: to be cancelled
};

}  // namespace reprise
