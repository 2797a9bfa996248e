// The choice of experts as plain data. Pointers stay valid while the task
// runs; threads may run different rows of one task at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

// A vector [experts] of any type; null: none.
struct ExpertVector {
  const char* data = nullptr;
  ElementType type = ElementType::float32;
};

struct RouteTask {
  const char* logits = nullptr;  // [rows, experts]
  std::int64_t row_bytes = 0;
  ElementType type = ElementType::float32;
  int experts = 0;
  ExpertVector bias;
  ExpertVector expert_scale;
  int top_k = 1;
  bool sigmoid = false;  // otherwise softmax
  bool normalize = false;
  float scale = 1.0f;
  int groups = 1;
  int groups_kept = 1;
  std::int32_t* ids = nullptr;  // [rows, top_k], contiguous
  float* weights = nullptr;     // alike
};

// All rows, on the threads of thread_pool.h.
void route(const RouteTask& task, int rows);

// Floats of working memory, aligned to 64 bytes.
inline std::size_t route_scratch_size(const RouteTask& task) {
  const std::size_t experts = (task.experts + 15) / 16 * 16;
  return 2 * experts + task.groups;
}

// Rows [begin, end). Softmax: the largest of the lanes' maxima is subtracted;
// exponentials are summed in 16 lanes and vec16.h's tree. The sum of the
// chosen is a chain in the order they were chosen in.
REPRISE_DECLARE_PER_ISA(void route_rows(const RouteTask& task, int begin,
                                        int end, float* scratch);)

}  // namespace reprise::kernels::cpu
