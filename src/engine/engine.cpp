#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "engine/inbox.h"
#include "engine/step_loop.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// An idle engine looks up this often, and is stuck when it has not for long.
constexpr auto kIdleWait = 500ms;
constexpr auto kHeartbeatAgeMax = 2s;
constexpr auto kNoStep = std::numeric_limits<Clock::rep>::min();

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

// What one request may hold: what was asked for, or what the model and the
// state memory allow. The last token of a reply needs no row.
int effective_context(const RunnerInfo& info, int asked) {
  const auto rows = static_cast<int>(
      std::min<std::int64_t>(std::int64_t{info.block_count} * kBlockTokens + 1,
                             std::numeric_limits<int>::max()));
  if (asked > info.context_tokens)
    throw std::invalid_argument(fmt::format(
        "a context of {} tokens was asked for; the model was made for {}",
        asked, info.context_tokens));
  if (asked > rows)
    throw std::invalid_argument(fmt::format(
        "a context of {} tokens was asked for; the state memory holds {}: "
        "raise --state-memory or lower --context-length",
        asked, rows));
  return asked > 0 ? asked : std::min(info.context_tokens, rows);
}

SchedulerLimits limits_for(const RunnerInfo& info,
                           const EngineOptions& options) {
  SchedulerLimits limits;
  limits.parallel = options.parallel;
  limits.context_tokens = effective_context(info, options.context_tokens);
  limits.block_count = info.block_count;
  limits.slot_count = info.slot_count;
  // A step reads one snapshot of each sequence and writes another.
  if (info.slot_count > 0)
    limits.parallel = std::min(limits.parallel, info.slot_count / 2);
  if (limits.parallel < 1 || limits.context_tokens < 1 ||
      limits.block_count < 1 || info.vocabulary < 1)
    throw std::invalid_argument(fmt::format(
        "[engine] parallel {}, context {} tokens, state memory {} blocks, "
        "vocabulary {}: each must be at least 1",
        limits.parallel, limits.context_tokens, limits.block_count,
        info.vocabulary));
  return limits;
}

}  // namespace

struct Engine::State {
  State(RunnerFactory factory, const EngineOptions& options)
      : options(options),
        now(options.now ? options.now : [] { return Clock::now(); }),
        inbox("The model is still loading.") {
    beat();
    thread =
        std::thread([this, factory = std::move(factory)] { main(factory); });
  }

  void main(const RunnerFactory& factory);
  std::unique_ptr<Runner> load(const RunnerFactory& factory,
                               SchedulerLimits& limits);
  void serve(StepLoop& loop);
  void fail(const std::string& why);
  void beat() { heartbeat = now().time_since_epoch().count(); }
  Clock::duration since(Clock::rep moment) const {
    return now().time_since_epoch() - Clock::duration(moment);
  }
  bool stuck() const;

  const EngineOptions options;
  const SteadyClock now;

  Inbox inbox;
  std::atomic<Clock::rep> heartbeat{0};
  std::atomic<Clock::rep> step_started{kNoStep};

  mutable std::mutex mutex;
  std::condition_variable loaded;
  // Guarded by mutex:
  EngineHealth phase = EngineHealth::loading;
  std::string failure;
  RunnerInfo info;
  SchedulerStatus scheduler;

  std::thread thread;
};

std::unique_ptr<Runner> Engine::State::load(const RunnerFactory& factory,
                                            SchedulerLimits& limits) {
  auto runner = factory();
  if (!runner) throw std::invalid_argument("[engine] no runner was made");
  limits = limits_for(runner->info(), options);
  return runner;
}

// The runner lives and dies on this thread.
void Engine::State::main(const RunnerFactory& factory) {
  std::unique_ptr<Runner> runner;
  SchedulerLimits limits;
  try {
    runner = load(factory, limits);
  } catch (...) {
    fail(text_of(std::current_exception()));
    return;
  }
  StepLoop loop(*runner, limits, now);
  loop.on_step(options.on_step);
  {
    const std::lock_guard lock(mutex);
    info = runner->info();
    info.context_tokens = limits.context_tokens;
    scheduler = loop.status();
    phase = EngineHealth::ready;
  }
  beat();
  inbox.open(limits, runner->info().vocabulary);
  loaded.notify_all();
  try {
    serve(loop);
  } catch (...) {
    // Not a failed step, which costs one request: the engine's own books.
    const auto why = text_of(std::current_exception());
    spdlog::error("the engine failed: {}", why);
    fail(why);
    const auto message = fmt::format("The engine failed: {}", why);
    loop.abandon_all(message);
    for (auto& left : inbox.take(0ms).submissions)
      loop.refuse(std::move(left), message);
  }
}

void Engine::State::serve(StepLoop& loop) {
  bool worked = false;
  while (true) {
    Mail mail = inbox.take(worked ? 0ms : kIdleWait);
    beat();
    for (auto& submission : mail.submissions) loop.add(std::move(submission));
    for (const RequestId id : mail.cancels) loop.cancel(id);
    if (mail.stopping) break;
    step_started = heartbeat.load();
    worked = loop.step();
    beat();
    step_started = kNoStep;
    const auto status = loop.status();
    inbox.settle(status.waiting);
    const std::lock_guard lock(mutex);
    scheduler = status;
  }
  loop.cancel_all();
}

void Engine::State::fail(const std::string& why) {
  spdlog::debug("the engine failed: {}", why);  // the program says it
  inbox.close(fmt::format("The engine failed: {}", why));
  {
    const std::lock_guard lock(mutex);
    phase = EngineHealth::failed;
    failure = why;
  }
  loaded.notify_all();
}

bool Engine::State::stuck() const {
  const auto started = step_started.load();
  if (started != kNoStep) return since(started) > options.step_timeout;
  return since(heartbeat) > kHeartbeatAgeMax;
}

Engine::Engine(RunnerFactory factory, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(factory), options)) {}

Engine::~Engine() {
  state_->inbox.stop();
  state_->thread.join();
}

Result<void> Engine::wait_ready() {
  std::unique_lock lock(state_->mutex);
  state_->loaded.wait(
      lock, [this] { return state_->phase != EngineHealth::loading; });
  if (state_->phase == EngineHealth::ready) return {};
  return Error{.kind = ErrorKind::unavailable, .message = state_->failure};
}

Result<RequestId> Engine::submit(Request request, EventSink sink) {
  return state_->inbox.submit(std::move(request), std::move(sink),
                              state_->now());
}

void Engine::cancel(RequestId id) {
  state_->inbox.cancel(id);
}

EngineStatus Engine::status() const {
  EngineStatus status;
  {
    const std::lock_guard lock(state_->mutex);
    status.health = state_->phase;
    status.failure = state_->failure;
    status.runner = state_->info;
    status.scheduler = state_->scheduler;
  }
  status.seconds_since_heartbeat =
      std::chrono::duration<double>(state_->since(state_->heartbeat)).count();
  if (status.health == EngineHealth::ready && state_->stuck())
    status.health = EngineHealth::stuck;
  return status;
}

}  // namespace reprise
