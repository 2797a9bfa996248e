// What all connections of a server share: options, the loaded model, metrics
// and the pool for work that would hold up the I/O thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/engine.h"
#include "server/backend.h"
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
      : options_(options), pool_(options.work_threads) {}

  const ServerOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  boost::asio::thread_pool& pool() { return pool_; }

  // Null until set_model. Any thread.
  std::shared_ptr<const LoadedModel> model() const;
  void set_model(ModelServices services, GenerationBackend backend);

  // Nothing until set_model. Any thread.
  std::optional<EngineStatus> engine_status() const;

 private:
  const ServerOptions options_;
  Metrics metrics_;
  boost::asio::thread_pool pool_;
  mutable std::mutex mutex_;
  std::shared_ptr<const LoadedModel> model_;  // guarded by mutex_
};

}  // namespace reprise
