// Which architectures are built in. A model file adds itself with one
// REGISTER_MODEL line; nothing else is edited for a new architecture.
#pragma once

#include <mlx/dtype.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "weights/checkpoint.h"

namespace reprise {

struct ModelOptions {
  mlx::core::Dtype dtype = mlx::core::float32;  // of activations and state
};

// Throws std::runtime_error with the missing or wrong setting or tensor.
using ModelFactory = std::function<std::unique_ptr<Model>(const Checkpoint&,
                                                          const ModelOptions&)>;

// Makes the model that the checkpoint's "model_type" names. Throws
// std::runtime_error: unknown ones list what is served.
std::unique_ptr<Model> make_model(const Checkpoint& checkpoint,
                                  const ModelOptions& options);

// The factory of a model that is made of a checkpoint and the type of its
// activations.
template <typename M>
std::unique_ptr<Model> make(const Checkpoint& checkpoint,
                            const ModelOptions& options) {
  return std::make_unique<M>(checkpoint, options.dtype);
}

std::vector<std::string> model_types();  // sorted

// Called before main by REGISTER_MODEL.
bool register_model(const std::string& model_type, ModelFactory factory);

}  // namespace reprise

#define REGISTER_MODEL(model_type, factory)        \
  [[maybe_unused]] static const bool kRegistered = \
      ::reprise::register_model(model_type, factory)
