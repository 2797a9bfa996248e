// The flags that every command which loads a model shares, and the engine
// made of them.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/model_runner.h"

namespace reprise {

struct ModelFlags {
  std::string model;
  int context_tokens = 0;  // 0: the model's
  int parallel = 4;
  std::size_t state_memory_bytes = 0;  // 0: auto
  std::string device = "auto";
  std::string dtype = "auto";
  KvQuantization kv;
  std::string log_level = "info";
  // Beyond it a step counts as stuck. A flag of the server's alone: elsewhere
  // nobody asks.
  std::chrono::milliseconds step_timeout = EngineOptions{}.step_timeout;
};

// A size in bytes as base/size.h reads it, more than 0; --help shows the value
// that is there as the default.
void add_size_flag(CLI::App& command, const std::string& name,
                   std::size_t& bytes, const std::string& help);

// Seconds, with a fraction or without, from a millisecond to a day.
void add_seconds_flag(CLI::App& command, const std::string& name,
                      std::chrono::milliseconds& duration,
                      const std::string& help);

// Each declares flags on `command`; values land in the reference, which must
// outlive the parse.
void add_model_path(CLI::App& command, std::string& path);
void add_dtype(CLI::App& command, std::string& dtype);
// --kv-bits, --kv-group-size, --quantized-kv-start.
void add_kv_flags(CLI::App& command, KvQuantization& kv);
// Those, --state-memory, --device, --dtype, --log-level.
void add_runner_flags(CLI::App& command, ModelFlags& flags);
// All of ModelFlags.
void add_model_flags(CLI::App& command, ModelFlags& flags);

ModelRunnerOptions runner_options(const ModelFlags& flags);

// Starts the engine; loading goes on in its thread (Engine::wait_ready).
// `on_step`: as EngineOptions has it.
std::unique_ptr<Engine> start_engine(
    const ModelFlags& flags,
    std::function<void(const StepReport&)> on_step = {});

}  // namespace reprise
