// What /metrics says, in Prometheus's text format: counts of this server and
// the engine's own books of the moment. Safe from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace reprise {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // A reply was sent (or could not be). `endpoint` is one of ours, not what a
  // client wrote: its values are bounded.
  void count_request(const std::string& endpoint, int status);
  void count_disconnect();  // a client went away before its reply ended

  void observe_first_token(double seconds);  // since the request was read
  void observe_next_token(double seconds);   // since the token before

  // `status`: nothing while no model is set.
  std::string text(const std::optional<EngineStatus>& status) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
