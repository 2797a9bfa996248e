// What the engine needs of a model: run one step, give the logits. The real
// one is engine/model_runner.h (MLX), the other engine/fake_runner.h. Called
// from the engine's thread only, the constructor of the real one included.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scheduler/step_plan.h"

namespace reprise {

struct RunnerInfo {
  int vocabulary = 0;      // logits of one row
  int context_tokens = 0;  // what the model was trained for
  int block_count = 0;     // blocks in the pool
  std::size_t block_bytes = 0;
  int slot_count = 0;  // snapshots in the pool; 0: the model keeps none
  std::size_t slot_bytes = 0;
  std::string device;  // "cpu", "gpu"
  std::string dtype;   // of activations and state
  int kv_bits = 0;     // of state that is quantized; 0: none is
};

// Logits in float32 of the positions that wanted them, in the plan's order.
struct StepLogits {
  int vocabulary = 0;
  std::vector<float> values;

  std::span<const float> row(int i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i) * vocabulary,
                                     vocabulary);
  }
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual RunnerInfo info() const = 0;

  // Runs the step to its end. Throws std::exception when any part failed; then
  // rows below each row's start are as before, and so is every block that the
  // plan does not write to.
  virtual StepLogits run(const StepPlan& plan) = 0;
};

}  // namespace reprise
