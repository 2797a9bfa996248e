// The index of sparse attention, for kernels of any instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

inline constexpr int kIndexTile = 64;  // pools that are scored together

struct PoolingTask {
  ElementType type = ElementType::float32;  // of keys, gates and out
  int pool = 1;                             // tokens
  int dim = 0;
  const float* ape = nullptr;  // [pool, dim]
};

struct IndexTask {
  const char* queries = nullptr;  // [tokens, heads * dim]
  std::int64_t query_row_bytes = 0;
  const char* weights = nullptr;  // float32 [tokens, heads]
  std::int64_t weight_row_bytes = 0;
  const char* pooled = nullptr;             // [blocks * 256 / pool, dim]
  ElementType type = ElementType::float32;  // of queries and pooled
  int heads = 1;
  int dim = 0;
  int pool = 1;
  int keep = 0;  // pools that are selected
  float scale = 1.0f;
};

// Floats of working memory, aligned to 64 bytes, that score_pools needs.
std::size_t index_scratch_size(const IndexTask& task);

// pool_rows: one row of pooled keys, from pointers to its rows of keys and
//   gates. Softmax in float32: e = exp(x - max), the sums over ascending
//   tokens, their quotient rounded once more.
// score_pools: scores[i] of pool begin + i, for pools [begin, end) and the
//   token in `row`: products are chains of fused multiply-adds over ascending
//   dimensions of query * scale and key, the sum over ascending heads one of
//   weight and relu.
REPRISE_DECLARE_PER_ISA(
    void pool_rows(const PoolingTask& task, const char* const* keys,
                   const char* const* gates, char* out);
    void score_pools(const IndexTask& task, const std::int32_t* blocks, int row,
                     int begin, int end, float* scratch, float* scores);)

}  // namespace reprise::kernels::cpu
