// The short convolution as plain data: what a kernel of any instruction set is
// handed. Pointers stay valid while the task runs; threads may run different
// items of one task at the same time.
//
// The arithmetic of an output: a chain of fused multiply-adds from 0 over
// ascending taps, a missing row being zeros; then x / (1 + e^-x) if wanted.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

inline constexpr int kConvTaps = 8;  // at most

struct ConvTask {
  const char* x = nullptr;  // [tokens, channels]
  std::int64_t x_row_bytes = 0;
  const char* weight = nullptr;  // [taps, channels]
  std::int64_t weight_row_bytes = 0;
  ElementType weight_type = ElementType::float32;
  char* pool = nullptr;                     // [slots, taps - 1, channels]
  char* out = nullptr;                      // [tokens, channels], contiguous
  ElementType type = ElementType::float32;  // of x, pool and out
  int channels = 0;
  int taps = 0;
  bool silu = false;
};

// Rows [begin, end) of a span, for channels [channel, channel + channels).
// The item that ends with the span also leaves its last rows in slot_to.
struct ConvItem {
  const RaggedSpan* span = nullptr;
  int begin = 0;
  int end = 0;
  int channel = 0;
  int channels = 0;
};

// From MLX's CPU stream thread; returns when all is written.
void run_short_conv(const ConvTask& task, const RaggedBatch& batch);

REPRISE_DECLARE_PER_ISA(void short_conv(const ConvTask& task,
                                        const ConvItem& item);)

}  // namespace reprise::kernels::cpu
