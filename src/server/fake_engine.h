// For the tests of this folder: an engine that does what the test says, event
// by event, and remembers what the server asked of it. Safe from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "server/backend.h"

namespace reprise {

class FakeEngine {
 public:
  FakeEngine() { status_.health = EngineHealth::ready; }

  GenerationBackend backend() {
    return {.submit =
                [this](Request request, EventSink sink) {
                  return submit(std::move(request), std::move(sink));
                },
            .cancel = [this](RequestId id) { cancel(id); },
            .status =
                [this] {
                  const std::lock_guard lock(mutex_);
                  return status_;
                }};
  }

  // Waits for the count-th request (1, 2, ...); its id is that number. 0 after
  // five seconds without.
  RequestId wait_request(RequestId count) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::seconds(5),
                                        [&] { return sinks_.size() >= count; });
    return came ? count : 0;
  }

  bool wait_cancelled(RequestId id, std::chrono::milliseconds within) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within,
                             [&] { return cancelled_.contains(id); });
  }

  bool cancelled(RequestId id) {
    return wait_cancelled(id, std::chrono::milliseconds(0));
  }

  Request request(RequestId id) {
    const std::lock_guard lock(mutex_);
    return requests_.at(id);
  }

  void prompt(RequestId id, const PromptLogprobs& logprobs) {
    sink(id)({id, logprobs});
  }
  void tokens(RequestId id, const std::vector<TokenId>& ids) {
    for (const TokenId token : ids) sink(id)({id, SampledToken{token}});
  }
  void finish(RequestId id, const Finish& finish) { sink(id)({id, finish}); }

  void refuse_next(const Error& error) { refuse_after(0, error); }

  // Takes so many requests more, and refuses the one after them.
  void refuse_after(int taken, const Error& error) {
    const std::lock_guard lock(mutex_);
    refusal_ = error;
    taken_before_ = taken;
  }

  void set_status(const EngineStatus& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  void set_health(EngineHealth health, const std::string& failure = "",
                  double seconds_since_heartbeat = 0) {
    EngineStatus status;
    status.health = health;
    status.failure = failure;
    status.seconds_since_heartbeat = seconds_since_heartbeat;
    set_status(status);
  }

 private:
  Result<RequestId> submit(Request request, EventSink sink) {
    const std::lock_guard lock(mutex_);
    if (refusal_ && taken_before_-- == 0) {
      const Error error = *refusal_;
      refusal_.reset();
      return error;
    }
    const RequestId id = sinks_.size() + 1;
    requests_[id] = std::move(request);
    sinks_[id] = std::move(sink);
    changed_.notify_all();
    return id;
  }

  void cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(id);
    changed_.notify_all();
  }

  EventSink sink(RequestId id) {
    const std::lock_guard lock(mutex_);
    return sinks_.at(id);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Request> requests_;
  std::map<RequestId, EventSink> sinks_;
  std::set<RequestId> cancelled_;
  std::optional<Error> refusal_;
  int taken_before_ = 0;
  EngineStatus status_;
};

}  // namespace reprise
