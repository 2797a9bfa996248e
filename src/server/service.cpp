#include "server/service.h"

#include <utility>

namespace reprise {

std::shared_ptr<const LoadedModel> Service::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void Service::set_model(ModelServices services, GenerationBackend backend) {
  auto model = std::make_shared<const LoadedModel>(
      LoadedModel{std::move(services), std::move(backend)});
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::optional<EngineStatus> Service::engine_status() const {
  const auto loaded = model();
  if (!loaded) return std::nullopt;
  return loaded->backend.status();
}

std::string Service::metrics_page() const {
  return metrics_.text(engine_status(), bodies_.used());
}

}  // namespace reprise
