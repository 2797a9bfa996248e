// The gated delta rule as plain data: what a kernel of any instruction set is
// handed. Pointers stay valid while the task runs; threads may run different
// items of one task at the same time.
//
// The arithmetic for one token, head and value channel, in float32:
//   S[i] *= e^decay[i] for every key channel i;
//   r = the chain of fused multiply-adds from 0 over ascending i of S[i] k[i];
//   d = beta * (v - r);
//   S[i] = fma(k[i], d, S[i]);
//   o = the chain over ascending i of S[i] q[i].
// So neither the number of tokens, nor which value channels go together, nor
// the instruction set shows in the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels::cpu {

struct DeltaRows {  // of one input, [tokens, ...]
  const char* data = nullptr;
  std::int64_t row_bytes = 0;
  ElementType type = ElementType::float32;
};

struct DeltaTask {
  DeltaRows q, k;         // [tokens, heads * key_dim]
  DeltaRows v;            // [tokens, heads * value_dim]
  DeltaRows decay;        // float32 [tokens, heads * key_dim]
  DeltaRows beta;         // [tokens, heads]
  float* pool = nullptr;  // [slots, heads, key_dim, value_dim]
  char* out = nullptr;    // [tokens, heads * value_dim], contiguous, v's type
  int heads = 1;
  int key_dim = 0;
  int value_dim = 0;
};

// All tokens of a span for some value channels of a head.
struct DeltaItem {
  const RaggedSpan* span = nullptr;
  int head = 0;
  int value = 0;
  int values = 0;
};

// Value channels are handed out in multiples of it.
inline constexpr int kDeltaValues = 32;
// Tokens whose q, k and decay are prepared together.
inline constexpr int kDeltaTokens = 16;

// Floats of working memory, aligned to 64 bytes, for an item of `values`.
inline std::size_t delta_scratch_size(const DeltaTask& task, int values) {
  const std::size_t keys = (task.key_dim + 15) / 16 * 16;
  const std::size_t wide =
      (values + kDeltaValues - 1) / kDeltaValues * kDeltaValues;
  return keys * wide + 3 * kDeltaTokens * keys;
}

// From MLX's CPU stream thread; returns when all is written.
void run_gated_delta(const DeltaTask& task, const RaggedBatch& batch);

REPRISE_DECLARE_PER_ISA(void gated_delta(const DeltaTask& task,
                                         const DeltaItem& item,
                                         float* scratch);)

}  // namespace reprise::kernels::cpu
