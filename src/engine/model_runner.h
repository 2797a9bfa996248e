// The real runner: a checkpoint's model on MLX. Everything here happens on
// the thread that calls, which must be the engine's: MLX arrays and streams
// belong to the thread that made them. This header does not show MLX.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/kv_quantization.h"
#include "engine/runner.h"

namespace reprise {

class BlockPools;

struct ModelRunnerOptions {
  std::string model_path;
  std::string device = "auto";         // auto, cpu, gpu
  std::string dtype = "auto";          // auto, float32, bfloat16, float16
  std::size_t state_memory_bytes = 0;  // 0: auto, see docs/architecture.md
  int parallel = 4;  // sequences that must be able to run at once
  KvQuantization kv = {};
};

// Opens the checkpoint, builds the model, reserves the pools. Throws
// std::runtime_error with one sentence for the user.
std::unique_ptr<Runner> make_model_runner(const ModelRunnerOptions& options);

// The pools of a runner that make_model_runner made: where the state of its
// sequences is read and written between steps (cache/sequence_state.h). They
// live as long as the runner.
const BlockPools& state_pools(const Runner& runner);

// "MLX 0.32.4, cpu": for --version. Throws as make_model_runner when `device`
// is not there.
std::string describe_backend(const std::string& device);

}  // namespace reprise
