#include "server/mailbox.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace reprise {

namespace asio = boost::asio;

Mailbox::Mailbox(asio::any_io_executor io, std::function<void()> on_overflow)
    : io_(std::move(io)), on_overflow_(std::move(on_overflow)) {}

void Mailbox::push(const Event& event) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (!io_ || overflowed_) return;
  if (events_.size() >= kMailboxEventsMax) {
    overflowed_ = true;
    events_.clear();
    asio::post(io_, on_overflow_);
    asio::post(io_, wake_);
    return;
  }
  events_.push_back({event, now});
  // Later events of a batch are found by the reader that the first one wakes.
  if (events_.size() == 1) asio::post(io_, wake_);
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  io_ = {};
  on_overflow_ = nullptr;
  wake_ = nullptr;
  events_ = {};
}

MailboxReader::MailboxReader(asio::any_io_executor io,
                             std::function<void()> on_overflow)
    : timer_(std::make_shared<asio::steady_timer>(io)),
      mailbox_(std::make_shared<Mailbox>(io, std::move(on_overflow))) {
  // Weak: a wake that was posted may run after this reader is gone.
  mailbox_->wake_ = [weak = std::weak_ptr(timer_)] {
    if (const auto timer = weak.lock()) timer->cancel();
  };
}

MailboxReader::~MailboxReader() {
  mailbox_->close();
}

asio::awaitable<std::vector<TimedEvent>> MailboxReader::wait() {
  while (true) {
    if (interrupted_) co_return std::vector<TimedEvent>{};
    {
      const std::lock_guard lock(mailbox_->mutex_);
      if (mailbox_->overflowed_) interrupted_ = true;
      if (interrupted_ || !mailbox_->events_.empty())
        co_return std::exchange(mailbox_->events_, {});
    }
    // A push between the check and this wait posts its wake behind it, because
    // both run on the one I/O thread: it cannot be lost.
    timer_->expires_at(asio::steady_timer::time_point::max());
    co_await timer_->async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void MailboxReader::interrupt() {
  interrupted_ = true;
  timer_->cancel();
}

}  // namespace reprise
