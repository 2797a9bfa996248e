// What other threads want of the engine, until its thread looks: requests and
// cancellations. Bounded; refuses what can never be served before it costs
// anything. Safe from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace reprise {

struct Submission {
  RequestId id = 0;
  Request request;
  EventSink sink;
  std::chrono::steady_clock::time_point submitted;
};

struct Mail {
  std::vector<Submission> submissions;
  std::vector<RequestId> cancels;  // of these or earlier submissions
  bool stopping = false;
};

class Inbox {
 public:
  // Closed at first: everybody is told `reason`.
  explicit Inbox(std::string reason) : closed_reason_(std::move(reason)) {}

  void open(const SchedulerLimits& limits, int vocabulary);
  void close(const std::string& reason);

  // Errors: as Engine::submit.
  Result<RequestId> submit(Request request, EventSink sink,
                           std::chrono::steady_clock::time_point now);
  void cancel(RequestId id);
  void stop();  // closes; the next mail says so

  // Everything that came since the last call; waits for something at most
  // this long.
  Mail take(std::chrono::milliseconds wait);

  // How many of what was taken still wait for admission: they count against
  // the bound.
  void settle(int waiting);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::string closed_reason_;  // empty: open
  SchedulerLimits limits_;
  int vocabulary_ = 0;
  RequestId next_id_ = 1;
  std::size_t waiting_ = 0;  // in submissions_, or taken and not admitted
  std::vector<Submission> submissions_;
  std::set<RequestId> cancels_;
  bool stopping_ = false;
};

}  // namespace reprise
