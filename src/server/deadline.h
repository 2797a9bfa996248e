// "Do this unless I call stop() in time", on an executor of one thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace reprise {

class Deadline {
 public:
  explicit Deadline(boost::asio::any_io_executor io);
  ~Deadline();  // as stop()

  // One action at a time: starting again replaces it. The action and what it
  // refers to must stay valid until it ran or stop() was called.
  void start(std::chrono::milliseconds after, std::function<void()> action);
  void stop();

  bool expired() const;  // the last action that was started has run

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise
