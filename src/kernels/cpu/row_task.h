// Operations on each row of a matrix by itself, as plain data: what a kernel
// of any instruction set is handed. Threads may run different rows of one task
// at the same time. Tails of rows take the same operations as full vectors.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {

// The operands are rows with unit stride; row_bytes 0 gives all rows the same
// one. What an operation does not mention it does not read.
struct RowTask {
  const char* a = nullptr;
  std::int64_t a_row_bytes = 0;
  const char* b = nullptr;
  std::int64_t b_row_bytes = 0;
  const char* c = nullptr;
  std::int64_t c_row_bytes = 0;
  const char* d = nullptr;
  std::int64_t d_row_bytes = 0;
  char* out = nullptr;                      // [rows, dim], contiguous
  ElementType type = ElementType::float32;  // of a, and of out
  ElementType b_type = ElementType::float32;
  ElementType c_type = ElementType::float32;
  int dim = 0;  // of a row of out, and of a unless said otherwise

  float eps = 0.0f;
  float factor = 0.0f;
  int head_dim = 0;  // a row is heads of this size
  int terms = 0;     // numbers that are added up

  // rope
  int rotary = 0;
  bool interleaved = false;

  // hyper-connections
  float mix_eps = 0.0f;
  int iterations = 0;
};

// Each for rows [begin, end). b and c have a's type unless said otherwise.

// Norms, of each head by itself. Squares are summed by fused multiply-adds in
// 16 lanes, the lanes in vec16.h's tree.
//   rms_norm_rows: x * (1 / sqrt(mean of squares + eps)) * weight, a weight
//     b [head_dim] of any type.
//   unweighted_rms_norm_rows: without weight.
//   gated_rms_norm_rows: with weight b, times sigmoid of c.
//   layer_norm_rows: the mean goes first; weight b and bias c of any type.
//   l2_norm_rows: x * (factor / sqrt(sum of squares + eps)).
REPRISE_DECLARE_PER_ISA(
    void rms_norm_rows(const RowTask& task, int begin, int end);
    void unweighted_rms_norm_rows(const RowTask& task, int begin, int end);
    void gated_rms_norm_rows(const RowTask& task, int begin, int end);
    void layer_norm_rows(const RowTask& task, int begin, int end);
    void l2_norm_rows(const RowTask& task, int begin, int end);)

// Element by element.
//   swiglu_rows: silu(a) * b.
//   limited_swiglu_rows: silu(min(a, factor)) * b within -factor..factor.
//   geglu_rows: gelu(a) * b.
//   gate_rows: a * sigmoid(b).
//   add_rows: a + b.
//   sigmoid_rows, scale_rows (a * factor), softcap_rows (factor *
//     tanh(a / factor)).
//   decay_rows: out float32; A = exp(b), b float32 [heads]; c [dim] of any
//     type; factor * sigmoid(A * (a + c)), or where factor is 0
//     -A * softplus(a + c).
REPRISE_DECLARE_PER_ISA(
    void swiglu_rows(const RowTask& task, int begin, int end);
    void limited_swiglu_rows(const RowTask& task, int begin, int end);
    void geglu_rows(const RowTask& task, int begin, int end);
    void gate_rows(const RowTask& task, int begin, int end);
    void add_rows(const RowTask& task, int begin, int end);
    void sigmoid_rows(const RowTask& task, int begin, int end);
    void scale_rows(const RowTask& task, int begin, int end);
    void softcap_rows(const RowTask& task, int begin, int end);
    void decay_rows(const RowTask& task, int begin, int end);)

// rope_rows: cos b, sin c float32 [rotary / 2]; two products and their sum for
// each number, not fused.
REPRISE_DECLARE_PER_ISA(void rope_rows(const RowTask& task, int begin,
                                       int end);)

// Sums of several rows or streams: chains of fused multiply-adds over
// ascending terms. A mix is float32: pre [terms], post [terms] and
// C [terms, terms].
//   expert_sum_rows: rows i * terms + j of a by b float32 [terms].
//   hyper_mix_rows: a is the streams [terms * head_dim], b float32 the product
//     with them, c float32 base, d float32 scale [3]; out is the mix.
//   hyper_in_rows: sum of pre_j * stream_j; a the streams, b the mix.
//   hyper_out_rows: post_i * y + sum of C[j, i] * stream_j for stream i; a the
//     streams, b y [head_dim], c the mix.
//   hyper_mean_rows: the sum of a's streams over their number.
REPRISE_DECLARE_PER_ISA(
    void expert_sum_rows(const RowTask& task, int begin, int end);
    void hyper_mix_rows(const RowTask& task, int begin, int end);
    void hyper_in_rows(const RowTask& task, int begin, int end);
    void hyper_out_rows(const RowTask& task, int begin, int end);
    void hyper_mean_rows(const RowTask& task, int begin, int end);)

// The largest number of streams.
inline constexpr int kHyperStreams = 8;

}  // namespace reprise::kernels::cpu
