// The HTTP server: one thread for sockets, a small pool for tokenizing. It
// listens before the model is loaded (then /health says so) and never touches
// the engine but through a GenerationBackend.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "server/backend.h"
#include "server/model_services.h"

namespace reprise {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name to be resolved
  std::uint16_t port = 8080;       // 0: any free one, see Server::port()
  std::string version = "0.0.0";   // shown by GET /
  std::vector<std::string> api_keys = {};      // none: open to everybody
  std::vector<std::string> cors_origins = {};  // web pages that may use it
  bool access_log = true;                      // a line for each request
  std::size_t header_bytes_max = kHeaderBytesMax;
  std::size_t body_bytes_max = kBodyBytesMax;
  std::size_t bodies_bytes_max = kBodiesBytesMax;  // that are read together
  std::size_t connections_max = 1024;
  int work_threads = 2;                              // tokenizing and rendering
  std::chrono::milliseconds idle_timeout{60'000};    // between requests
  std::chrono::milliseconds header_timeout{30'000};  // first byte to last
  std::chrono::milliseconds body_timeout{120'000};
  std::chrono::milliseconds write_timeout{60'000};  // one write, no progress
};

class Server {
 public:
  explicit Server(const ServerOptions& options);
  ~Server();  // stop() without grace

  // Binds, listens and serves from a thread of its own; logs a warning where
  // others can reach it and no key is asked for. Errors: invalid with the
  // address and the system's reason.
  Result<void> start();

  std::uint16_t port() const;  // the bound one, after start()

  // Tells /metrics of a step: for EngineOptions::on_step. Any thread, until the
  // server is gone.
  void observe_step(const StepReport& report);

  // From now on requests are served: /health is 200 as soon as the backend
  // says ready. Call once. The backend's functions must work until stop()
  // has returned.
  void set_model(ModelServices model, GenerationBackend backend);

  // Takes no new connections or requests, lets replies that run come to their
  // end for at most `grace`, cancels the rest, and joins the threads.
  void stop(std::chrono::milliseconds grace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
