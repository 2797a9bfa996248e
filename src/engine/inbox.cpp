#include "engine/inbox.h"

#include <fmt/format.h>

#include <utility>

#include "base/limits.h"
#include "scheduler/admission.h"

namespace reprise {
namespace {

Result<void> check_vocabulary(const Request& request, int vocabulary) {
  for (const TokenId id : request.prompt) {
    if (id >= 0 && id < vocabulary) continue;
    return Error{.kind = ErrorKind::invalid,
                 .message = fmt::format(
                     "The prompt has token id {}; the model's ids are 0 to {}.",
                     id, vocabulary - 1),
                 .subject = "prompt"};
  }
  return {};
}

}  // namespace

void Inbox::open(const SchedulerLimits& limits, int vocabulary) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  vocabulary_ = vocabulary;
  if (!stopping_) closed_reason_.clear();
}

void Inbox::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  closed_reason_ = reason;
}

Result<RequestId> Inbox::submit(Request request, EventSink sink,
                                std::chrono::steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!closed_reason_.empty())
    return Error{.kind = ErrorKind::unavailable, .message = closed_reason_};
  if (auto ok = check_request(request, limits_); !ok) return ok.error();
  if (auto ok = check_vocabulary(request, vocabulary_); !ok) return ok.error();
  if (waiting_ >= kInboxRequestsMax)
    return Error{
        .kind = ErrorKind::busy,
        .message = fmt::format(
            "{} requests are waiting already; try again later.", waiting_)};
  ++waiting_;
  const RequestId id = next_id_++;
  submissions_.push_back({.id = id,
                          .request = std::move(request),
                          .sink = std::move(sink),
                          .submitted = now});
  changed_.notify_one();
  return id;
}

void Inbox::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (id == 0 || id >= next_id_ || stopping_) return;
  cancels_.insert(id);
  changed_.notify_one();
}

void Inbox::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  closed_reason_ = "The server is stopping.";
  changed_.notify_one();
}

Mail Inbox::take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (wait.count() > 0)
    changed_.wait_for(lock, wait, [this] {
      return stopping_ || !submissions_.empty() || !cancels_.empty();
    });
  Mail mail;
  mail.submissions = std::exchange(submissions_, {});
  mail.cancels.assign(cancels_.begin(), cancels_.end());
  cancels_.clear();
  mail.stopping = stopping_;
  return mail;
}

void Inbox::settle(int waiting) {
  const std::lock_guard lock(mutex_);
  waiting_ = submissions_.size() + static_cast<std::size_t>(waiting);
}

}  // namespace reprise
