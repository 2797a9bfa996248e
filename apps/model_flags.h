// The flags that every command which loads a model shares, and the engine
// made of them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace reprise {

struct ModelFlags {
  std::string model;
  int context_tokens = 0;  // 0: the model's
  int parallel = 4;
  std::size_t state_memory_bytes = 0;  // 0: auto
  std::string device = "auto";
  std::string dtype = "auto";
  std::string log_level = "info";
};

// Declares the flags on `command`; values land in `flags`, which must outlive
// the parse.
void add_model_flags(CLI::App& command, ModelFlags& flags);

// Starts the engine; loading goes on in its thread (Engine::wait_ready).
std::unique_ptr<Engine> start_engine(const ModelFlags& flags);

}  // namespace reprise
