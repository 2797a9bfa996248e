// Attention over block pools as plain data: what a kernel of any instruction
// set is handed. Pointers stay valid while the task runs; threads may run
// different items of one task at the same time.
//
// The arithmetic, which every instruction set performs bit for bit alike, for
// the query of one head at absolute position p:
//   - A score is the product of q * scale and the key, a chain of fused
//     multiply-adds over ascending dimensions, in float32.
//   - Positions 0..p are taken in tiles of kAttentionTile at absolute
//     multiples of it. A tile raises the running maximum m; weights are
//     exp(score - m); their sum is kept in 16 lanes (lane = position mod 16);
//     the weighted sum of values is a chain over ascending positions.
//   - Tiles form chunks of kAttentionChunk, each with m, sums and values of
//     its own, joined in ascending order. So a long context can be split
//     over threads, and a split changes nothing.
// (Online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867)
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionChunk = 1024;
static_assert(kAttentionChunk % kAttentionTile == 0);

struct AttentionTask {
  const char* q = nullptr;  // [tokens, heads * head_dim]
  std::int64_t q_row_bytes = 0;
  const char* keys = nullptr;  // [pool rows, kv_heads * head_dim]
  const char* values = nullptr;
  char* out = nullptr;  // [tokens, heads * head_dim], contiguous
  ElementType type = ElementType::float32;  // of all four
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 0;
  float scale = 1.0f;
};

// Some tokens of a span, for the heads that share one head of keys.
struct AttentionItem {
  const std::int32_t* blocks = nullptr;  // the span's table
  int first_row = 0;                     // of these tokens in q and out
  int tokens = 0;
  int position = 0;  // absolute, of the first token
  int kv_head = 0;
};

// Floats that a chunk of an item of `tokens` tokens leaves behind, and floats
// of working memory, aligned to 64 bytes, that the functions below need.
std::size_t attention_state_size(const AttentionTask& task, int tokens);
std::size_t attention_scratch_size(const AttentionTask& task, int tokens);

// attend: all of an item, to task.out.
// attend_chunk: one chunk of an item, to `state`.
// join_chunks: the states of an item's chunks, which follow each other in
// memory in ascending order, to task.out.
REPRISE_DECLARE_PER_ISA(
    void attend(const AttentionTask& task, const AttentionItem& item,
                float* scratch);
    void attend_chunk(const AttentionTask& task, const AttentionItem& item,
                      int chunk, float* scratch, float* state);
    void join_chunks(const AttentionTask& task, const AttentionItem& item,
                     const float* states, int chunks, float* scratch);)

}  // namespace reprise::kernels::cpu
