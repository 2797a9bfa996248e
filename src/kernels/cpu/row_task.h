// Operations on each row of a matrix by itself, as plain data: what a kernel
// of any instruction set is handed. Threads may run different rows of one task
// at the same time. Tails of rows take the same operations as full vectors.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

struct RowTask {
  const char* a = nullptr;  // [rows, dim], unit stride within a row
  std::int64_t a_row_bytes = 0;
  const char* b = nullptr;  // like a; rms_norm: the weight [dim]; rope: cos
  std::int64_t b_row_bytes = 0;
  const char* c = nullptr;  // rope: sin; both float32 [rows, rotary / 2]
  std::int64_t c_row_bytes = 0;
  char* out = nullptr;                      // [rows, dim], contiguous
  ElementType type = ElementType::float32;  // of a and out
  ElementType b_type = ElementType::float32;
  int dim = 0;
  float eps = 0.0f;  // rms_norm

  // rope
  int head_dim = 0;
  int rotary = 0;
  bool interleaved = false;
};

// Each for rows [begin, end).
//   rms_norm_rows: squares are summed by fused multiply-adds in 16 lanes, the
//     lanes in vec16.h's tree; then x * (1 / sqrt(mean + eps)) * weight.
//   swiglu_rows: gate / (1 + exp(-gate)) * up.
//   add_rows: a + b.
//   rope_rows: two products and their sum for each number, not fused.
REPRISE_DECLARE_PER_ISA(
    void rms_norm_rows(const RowTask& task, int begin, int end);
    void swiglu_rows(const RowTask& task, int begin, int end);
    void add_rows(const RowTask& task, int begin, int end);
    void rope_rows(const RowTask& task, int begin, int end);)

}  // namespace reprise::kernels::cpu
