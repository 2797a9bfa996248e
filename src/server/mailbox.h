// One request's events on their way from the engine's thread to the coroutine
// that answers the client. push() never blocks and never throws; the reader
// and everything else here live on the I/O thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "request/event.h"

namespace reprise {

// Events that may wait for a client that does not read.
inline constexpr std::size_t kMailboxEventsMax = 4096;

struct TimedEvent {
  Event event;
  std::chrono::steady_clock::time_point when;  // it was pushed
};

// Shared with the engine's sink and safe to outlive the reader: after close()
// it holds nothing of the I/O side and drops what comes.
class Mailbox {
 public:
  // `on_overflow` runs on the I/O thread when more than kMailboxEventsMax
  // events pile up; what piled up is lost.
  Mailbox(boost::asio::any_io_executor io, std::function<void()> on_overflow);

  void push(const Event& event);  // any thread
  void close();

 private:
  friend class MailboxReader;

  std::mutex mutex_;
  // Guarded by mutex_. io_ is empty after close().
  boost::asio::any_io_executor io_;
  std::function<void()> on_overflow_;
  std::function<void()> wake_;
  std::vector<TimedEvent> events_;
  bool overflowed_ = false;
};

// The reading end: one a request. Its destructor closes the mailbox.
class MailboxReader {
 public:
  MailboxReader(boost::asio::any_io_executor io,
                std::function<void()> on_overflow);
  ~MailboxReader();
  MailboxReader(const MailboxReader&) = delete;
  MailboxReader& operator=(const MailboxReader&) = delete;

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // All events since the last call, in order; waits for the first. Empty once
  // interrupt() was called or the mailbox overflowed.
  boost::asio::awaitable<std::vector<TimedEvent>> wait();

  void interrupt();  // the client is gone: end the wait
  bool interrupted() const { return interrupted_; }

 private:
  std::shared_ptr<boost::asio::steady_timer> timer_;
  std::shared_ptr<Mailbox> mailbox_;
  bool interrupted_ = false;
};

}  // namespace reprise
