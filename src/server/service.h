// What all connections of a server share: options, the loaded model, metrics
// and the pool for work that would hold up the I/O thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/backend.h"
#include "server/body_budget.h"
#include "server/metrics.h"
#include "server/model_services.h"
#include "server/server.h"

namespace reprise {

struct LoadedModel {
  ModelServices services;
  GenerationBackend backend;
};

class Service {
 public:
  explicit Service(const ServerOptions& options)
      : options_(options),
        metrics_(options.version),
        bodies_(options.bodies_bytes_max),
        pool_(options.work_threads) {}

  const ServerOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  BodyBudget& bodies() { return bodies_; }
  boost::asio::thread_pool& pool() { return pool_; }

  // Null until set_model. Any thread.
  std::shared_ptr<const LoadedModel> model() const;
  void set_model(ModelServices services, GenerationBackend backend);

  // Only this machine reaches it. Set before the first connection.
  bool on_loopback() const { return on_loopback_; }
  void set_on_loopback(bool loopback) { on_loopback_ = loopback; }

  // What /metrics says. Any thread.
  std::string metrics_page() const;

  // Nothing until set_model. Any thread.
  std::optional<EngineStatus> engine_status() const;

 private:
  const ServerOptions options_;
  Metrics metrics_;
  BodyBudget bodies_;
  bool on_loopback_ = false;
  boost::asio::thread_pool pool_;
  mutable std::mutex mutex_;
  std::shared_ptr<const LoadedModel> model_;  // guarded by mutex_
};

}  // namespace reprise
