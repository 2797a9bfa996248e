// What /metrics says, in Prometheus's text format: counts of this server and
// the engine's own books of the moment. docs/metrics.md lists the families.
// Safe from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace reprise {

class Metrics {
 public:
  explicit Metrics(const std::string& version);
  ~Metrics();

  // A reply was sent (or could not be). `endpoint` is one of ours, not what a
  // client wrote: its values are bounded.
  void count_request(const std::string& endpoint, int status);
  void count_disconnect();  // a client went away before its reply ended
  void connection_opened();
  void connection_closed();

  void observe_step(const StepReport& report);
  void observe_queue(double seconds);        // from submit to admission
  void observe_first_token(double seconds);  // since the request was read
  void observe_next_token(double seconds);   // since the token before

  // `status`: nothing while no model is set. `body_bytes`: of requests that
  // are being read.
  std::string text(const std::optional<EngineStatus>& status,
                   std::size_t body_bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
