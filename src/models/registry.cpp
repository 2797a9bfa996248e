#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <stdexcept>

namespace reprise {
namespace {

// Function-local, so that it exists whichever file registers first.
std::map<std::string, ModelFactory>& factories() {
  static std::map<std::string, ModelFactory> all;
  return all;
}

}  // namespace

bool register_model(const std::string& model_type, ModelFactory factory) {
  return factories().emplace(model_type, std::move(factory)).second;
}

std::vector<std::string> model_types() {
  std::vector<std::string> types;
  for (const auto& [type, factory] : factories()) types.push_back(type);
  return types;
}

std::unique_ptr<Model> make_model(const Checkpoint& checkpoint,
                                  const ModelOptions& options) {
  const auto& config = checkpoint.config();
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string())
    throw std::runtime_error(
        "the configuration has no \"model_type\": is this a language model?");
  const auto found = factories().find(type->get<std::string>());
  if (found == factories().end())
    throw std::runtime_error(
        fmt::format("model type '{}' is not served (served: {})",
                    type->get<std::string>(), fmt::join(model_types(), ", ")));
  return found->second(checkpoint, options);
}

}  // namespace reprise
