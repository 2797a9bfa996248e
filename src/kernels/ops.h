// The operations that models are made of, as functions that build graph. On
// the CPU each is a primitive of our own (kernels/cpu); elsewhere, and in
// tests, its plain composition of MLX operations (kernels/plain.h).
//
// Every one of them is row-invariant on the CPU: the bits of an output row
// depend on that row's inputs and its absolute position, never on how many
// rows came along, on the number of threads, or on AVX2 or AVX-512. That is
// what lets a cached prefix be indistinguishable from a computed one.
//
// Activations x are [rows, dim], row-contiguous, float32, bfloat16 or float16;
// arithmetic is float32 (each operation rounded once, in a fixed order), the
// output has x's dtype unless said otherwise. Shape and dtype errors throw
// std::invalid_argument "[op] ...", when the graph is built.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>

#include "kernels/attention.h"
#include "kernels/ragged_batch.h"
#include "kernels/sparse_attention.h"
#include "kernels/state_rows.h"

namespace reprise::kernels {

// An affine-quantized matrix in MLX's layout: element (n, k) is
// scales[n, k/g] * q + biases[n, k/g], q the k-th `bits`-wide field of row n.
struct QuantizedMatrix {
  array words;          // uint32 [N, K * bits / 32]
  array scales;         // float32, bfloat16 or float16 [N, K / group_size]
  array biases;         // as scales
  int group_size = 64;  // 32, 64 or 128
  int bits = 4;         // 2, 3, 4, 5, 6 or 8

  int rows() const { return words.shape(0); }
  int columns() const { return scales.shape(1) * group_size; }
};

// x [M, K] · wᵀ with w [N, K] → [M, N]. w: float32, bfloat16 or float16.
array matmul(const array& x, const array& w);
array matmul(const array& x, const QuantizedMatrix& w);
// The same, rounded to `out` instead of x's dtype.
array matmul(const array& x, const array& w, mlx::core::Dtype out);
array matmul(const array& x, const QuantizedMatrix& w, mlx::core::Dtype out);

// Rows `ids` (int32 [T]) of a [N, K] matrix, as `dtype` [T, K]. An id that is
// no row fails the evaluation, not the call.
array take_rows(const array& w, const array& ids, mlx::core::Dtype dtype);
array take_rows(const QuantizedMatrix& w, const array& ids,
                mlx::core::Dtype dtype);

// Norms of each head by itself, a head being the weight's length (or
// head_dim): x [rows, heads * head_dim].

// x / sqrt(mean(x²) + eps) * weight.
array rms_norm(const array& x, const array& weight, float eps);

// x / sqrt(mean(x²) + eps).
array unweighted_rms_norm(const array& x, int head_dim, float eps);

// x / sqrt(mean(x²) + eps) * weight * σ(gate), the gate as x.
array gated_rms_norm(const array& x, const array& weight, const array& gate,
                     float eps);

// (x - mean) / sqrt(variance + eps) * weight + bias.
array layer_norm(const array& x, const array& weight, const array& bias,
                 float eps);

// x / sqrt(Σx² + eps) * factor.
array l2_norm(const array& x, int head_dim, float eps, float factor);

// Element by element, operands of the same shape and dtype.

// silu(gate) * up; with a limit, silu(min(gate, limit)) times up cut to
// -limit..limit.
array swiglu(const array& gate, const array& up);
array swiglu(const array& gate, const array& up, float limit);

// gelu(gate) * up, with GELU's approximation by tanh.
array geglu(const array& gate, const array& up);

// x * σ(gate).
array sigmoid_gate(const array& x, const array& gate);

// σ(x); x * factor; cap * tanh(x / cap).
array sigmoid(const array& x);
array scale(const array& x, float factor);
array softcap(const array& x, float cap);

// a + b, element by element, same shape and dtype.
array add(const array& a, const array& b);

// Rotary position embedding of x [T, heads * head_dim]. cos, sin: float32
// [T, rotary / 2], made once a step by rope_table. Pairs are (i, i + rotary/2)
// of each head, or (2i, 2i + 1) when interleaved; dims past `rotary` pass
// through. (Su et al. 2021, arXiv:2104.09864)
struct RopeShape {
  int heads = 1;
  int head_dim = 0;
  int rotary = 0;  // dims that rotate, even, <= head_dim
  bool interleaved = false;
};
array rope(const array& x, const array& cos, const array& sin,
           const RopeShape& shape);

// cos and sin of position · frequency, float32 [T, F], for the positions of
// the batch. frequencies: float32 [F]. Always on the host in float32, so both
// ways of computing a position give the same bits.
struct RopeTable {
  array cos;
  array sin;
};
RopeTable rope_table(const RaggedBatch& batch, const array& frequencies);

// Writes the step's rows [T, row] into the pool [pool rows, row] at
// batch.pool_rows, after batch.copies, in place: the output shares the pool's
// buffer, whose handle is never reassigned, and serves this step's reads. All
// rows are written before the output is available.
array append(const array& pool, const array& rows, const RaggedBatchPtr& batch);

}  // namespace reprise::kernels
