// Products with the matrices of experts, and the choice of experts, as plain
// data. Pointers stay valid while the task runs. The arithmetic of a product
// is that of matmul_task.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_task.h"

namespace reprise::kernels::cpu {

// `count` matrices of one shape at equal distances.
struct ExpertMatrices {
  WeightMatrix first;
  int count = 0;
  std::int64_t bytes = 0;  // from one to the next
  std::int64_t scale_bytes = 0;
  std::int64_t bias_bytes = 0;

  WeightMatrix at(int expert) const {
    WeightMatrix w = first;
    w.data += expert * bytes;
    if (w.bits != 0) {
      w.scales += expert * scale_bytes;
      w.biases += expert * bias_bytes;
    }
    return w;
  }
};

struct ExpertTask {
  const char* x = nullptr;  // [slots / slots_per_row, columns]
  std::int64_t x_row_bytes = 0;
  int slots_per_row = 1;
  ElementType type = ElementType::float32;  // of x and out
  ExpertMatrices w;
  const char* ids = nullptr;  // int32 [slots / slots_per_token, ...]
  std::int64_t id_row_bytes = 0;
  int slots_per_token = 1;
  int slots = 0;
  char* out = nullptr;  // [slots, rows of a matrix], contiguous

  int expert(int slot) const {
    return reinterpret_cast<const std::int32_t*>(
        ids + slot / slots_per_token * id_row_bytes)[slot % slots_per_token];
  }
};

// On the threads of thread_pool.h. Throws std::out_of_range for an id that is
// no expert, before anything is written.
void expert_matmul(const ExpertTask& task);

}  // namespace reprise::kernels::cpu
