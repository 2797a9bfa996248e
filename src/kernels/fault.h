// A seam for tests: a hook that is called where a step can fail, and may
// throw. Empty in production, where a point costs one load.
#pragma once

#include <functional>

namespace reprise::kernels {

enum class FaultStage {
  build,  // while the graph is built, on the caller's thread
  eval,   // while the operation is dispatched
  task,   // late: in the task that does the work, on the stream's thread
};

// Not thread-safe against running steps: set it between them.
void set_fault_hook(std::function<void(FaultStage)> hook);

// Calls the hook if there is one. What writes state passes all three stages:
// append(), short_conv() and gated_delta().
void fault_point(FaultStage stage);

}  // namespace reprise::kernels
