// The engine: one thread that owns the model and its state, and an inbox.
// This header knows neither MLX nor HTTP. submit, cancel and status are safe
// from any thread; sinks are called on the engine's thread and must not block
// or throw: they hand the event on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/runner.h"
#include "request/event.h"
#include "request/request.h"
#include "scheduler/scheduler.h"

namespace reprise {

using EventSink = std::function<void(const Event&)>;

// A clock that only goes forward. Called from any thread.
using SteadyClock = std::function<std::chrono::steady_clock::time_point()>;

// Makes the runner, on the engine's thread: MLX arrays belong to the thread
// that made them. Throws std::exception when the model cannot be loaded.
using RunnerFactory = std::function<std::unique_ptr<Runner>()>;

enum class EngineHealth { loading, ready, failed, stuck };

struct EngineStatus {
  EngineHealth health = EngineHealth::loading;
  std::string failure;        // why, for failed
  RunnerInfo runner;          // once ready
  SchedulerStatus scheduler;  // as of the last step
  double seconds_since_heartbeat = 0;
};

// One forward step, for statistics.
struct StepReport {
  double seconds = 0;  // plan to events
  int rows = 0;        // requests in it
  int tokens = 0;      // evaluated
  bool failed = false;
};

struct EngineOptions {
  int parallel = 4;
  // 0: the model's, or less where the state memory is smaller. More than
  // either is refused when loading.
  int context_tokens = 0;
  // A step that takes longer means stuck, as does an idle engine that has not
  // looked into its inbox for 2 s.
  std::chrono::milliseconds step_timeout{60'000};
  SteadyClock now = {};  // the system's, unless a test brings its own
  // Called on the engine's thread after each step; must not block or throw.
  std::function<void(const StepReport&)> on_step = {};
};

class Engine {
 public:
  Engine(RunnerFactory factory, const EngineOptions& options);
  ~Engine();  // ends every request with cancelled, then joins the thread

  // Blocks until loading has ended. Errors: the reason.
  Result<void> wait_ready();

  // The sink gets this request's events: tokens, then one Finish. A sink that
  // throws has its request cancelled. Errors: as Scheduler::add, invalid for
  // a token outside the vocabulary, unavailable while loading, after a
  // failure or while stopping.
  Result<RequestId> submit(Request request, EventSink sink);

  // The request stops costing within one step. Unknown ids are ignored.
  void cancel(RequestId id);

  EngineStatus status() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
