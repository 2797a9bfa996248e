// Attention over block pools as plain data: what a kernel of any instruction
// set is handed. Pointers stay valid while the task runs; threads may run
// different items of one task at the same time.
//
// The arithmetic, which every instruction set performs bit for bit alike, for
// the query of one head at absolute position p:
//   - A key is the parts' elements one part after the other; a quantized
//     element is fma(field, scale, bias). A score is the product of q * scale
//     and the key, a chain of fused multiply-adds over ascending dimensions,
//     in float32; then, where there is a softcap c, c * tanh(score / c).
//   - Positions first..p, first being 0 or what the window leaves, are taken
//     in tiles of kAttentionTile at absolute multiples of it. A tile raises
//     the running maximum m; weights are exp(score - m); their sum is kept in
//     16 lanes (lane = position mod 16); the weighted sum of values is a chain
//     over ascending positions.
//   - Tiles form chunks of kAttentionChunk, each with m, sums and values of
//     its own, joined in ascending order. So a long context can be split
//     over threads, and a split changes nothing.
//   - A sink adds exp(sink - m) to the sum in the end.
//   - With a list of positions, all this goes by the place in the list.
// (Online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867)
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/state_part.h"

namespace reprise::kernels::cpu {

inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionChunk = 1024;
static_assert(kAttentionChunk % kAttentionTile == 0);

struct AttentionTask {
  const char* q = nullptr;  // [tokens, heads * key_dim]
  std::int64_t q_row_bytes = 0;
  StatePart keys[2];  // their dims add up to key_dim
  int key_parts = 1;
  StatePart values;
  bool values_are_keys = false;  // values is keys[0] once more
  char* out = nullptr;           // [tokens, heads * value_dim], contiguous
  const float* sinks = nullptr;  // [heads], or none
  ElementType type = ElementType::float32;  // of q, plain rows and out
  int heads = 1;
  int kv_heads = 1;
  int key_dim = 0;
  int value_dim = 0;
  float scale = 1.0f;
  int window = 0;        // 0: none
  float softcap = 0.0f;  // 0: none

  // Set by lay_out(): the dims in whole vectors; floats for a row of keys that
  // must be dequantized on its own, 0 where none is.
  int key_wide = 0;
  int value_wide = 0;
  int loose_wide = 0;
};

// Some tokens of a span, for the heads that share one head of keys.
struct AttentionItem {
  const std::int32_t* blocks = nullptr;  // the span's table
  // Where not null: one token, which reads these positions (ascending); then
  // `position` is the last place of the list.
  const std::int32_t* positions = nullptr;
  int first_row = 0;  // of these tokens in q and out
  int tokens = 0;
  int position = 0;  // absolute, of the first token
  int kv_head = 0;
};

void lay_out(AttentionTask& task);

// Chunks [first, end) in which an item reads anything.
struct ChunkRange {
  int first, end;
};
ChunkRange chunks_of(const AttentionTask& task, const AttentionItem& item);

// Floats that a chunk of an item of `tokens` tokens leaves behind, and floats
// of working memory, aligned to 64 bytes, that the functions below need.
std::size_t attention_state_size(const AttentionTask& task, int tokens);
std::size_t attention_scratch_size(const AttentionTask& task, int tokens);

// attend: all of an item, to task.out.
// attend_chunk: one chunk of an item, to `state`.
// join_chunks: the states of an item's chunks, which follow each other in
// memory in ascending order, to task.out.
REPRISE_DECLARE_PER_ISA(void attend(const AttentionTask& task,
                                    const AttentionItem& item, float* scratch);
                        void attend_chunk(const AttentionTask& task,
                                          const AttentionItem& item, int chunk,
                                          float* scratch, float* state);
                        void join_chunks(const AttentionTask& task,
                                         const AttentionItem& item,
                                         const float* states, float* scratch);)

}  // namespace reprise::kernels::cpu
