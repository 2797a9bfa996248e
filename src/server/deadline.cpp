#include "server/deadline.h"

#include <utility>

namespace reprise {

struct Deadline::State {
  explicit State(boost::asio::any_io_executor io) : timer(std::move(io)) {}

  boost::asio::steady_timer timer;
  std::function<void()> action;
  // A timer that has fired cannot be cancelled any more, although its handler
  // still waits in the queue. The handler compares this to see it is stale.
  std::uint64_t round = 0;
  bool expired = false;
};

Deadline::Deadline(boost::asio::any_io_executor io)
    : state_(std::make_shared<State>(std::move(io))) {}

Deadline::~Deadline() {
  stop();
}

void Deadline::start(std::chrono::milliseconds after,
                     std::function<void()> action) {
  state_->action = std::move(action);
  state_->expired = false;
  state_->timer.expires_after(after);
  state_->timer.async_wait(
      [state = state_, round = ++state_->round](auto error) {
        if (error || round != state->round || !state->action) return;
        state->expired = true;
        std::exchange(state->action, nullptr)();
      });
}

void Deadline::stop() {
  ++state_->round;
  state_->action = nullptr;
  state_->timer.cancel();
}

bool Deadline::expired() const {
  return state_->expired;
}

}  // namespace reprise
