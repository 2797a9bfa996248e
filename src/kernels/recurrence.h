// Operations that carry a value of fixed size from token to token: the short
// convolution and the gated delta rule, and the gates before the latter.
// Contracts as in ops.h: on the CPU the bits of a row depend on the span's
// rows up to it and on the value it starts from, however the rows are cut into
// steps.
//
// A pool [slots, ...] holds such values. A span starts from the value in its
// slot_from and leaves the value after its last row in its slot_to, in place:
// the returned pool shares the buffer of the one handed in, whose handle is
// never reassigned. All other slots stay as they are. A slot that is written
// must not be read by any span, nor written by another: std::invalid_argument.
// As append(), what writes state runs on the CPU only in this build; the plain
// compositions take one sequence and hand back its value.
#pragma once

#include <mlx/array.h>

#include <optional>

#include "kernels/ops.h"
#include "kernels/ragged_batch.h"

namespace reprise::kernels {

struct Carried {
  array rows;  // the result of each row
  array pool;  // serves reads in this step
};

// Causal convolution of each channel by itself, of x [T, C] with weight [K, C]
// (taps by channels, contiguous; 2 <= K <= 8): row t is
// Σ_j weight[j] * x[t - K + 1 + j] in ascending j, through silu if wanted,
// rounded once. weight is of any type. A value is the K - 1 rows of x before a
// row, oldest first: pool [slots, (K - 1) * C] in x's dtype. No value is zeros.
Carried short_conv(const array& x, const array& weight, const array& pool,
                   const RaggedBatchPtr& batch, bool silu);

// The gated delta rule with a decay for each key channel, token by token, for
// each head with its state S [key_dim, value_dim] in float32:
//   S ← diag(e^log_decay) S;  δ = beta (v - Sᵀk);  S ← S + k δᵀ;  o = Sᵀq
// q, k [T, heads * key_dim] and v [T, heads * value_dim] of one dtype, which
// o [T, heads * value_dim] has, too; log_decay float32 [T, heads * key_dim];
// beta [T, heads] of any type. A value is S of all heads:
// pool float32 [slots, heads * key_dim * value_dim]. No value is zeros.
// (Yang et al. 2024, arXiv:2412.06464; Kimi Team 2025, arXiv:2510.26692)
struct DeltaShape {
  int heads = 1;
  int key_dim = 0;
  int value_dim = 0;
};
struct DeltaInputs {
  array q, k, v;
  array log_decay;
  array beta;
};
Carried gated_delta(const DeltaInputs& inputs, const array& pool,
                    const RaggedBatchPtr& batch, const DeltaShape& shape);

// The log_decay of the above, float32 [T, heads * d], from x of any of the
// three types, log_rate float32 [heads] and bias [heads * d] of any type:
// lower_bound * σ(e^log_rate (x + bias)) with a negative lower_bound,
// otherwise -e^log_rate * softplus(x + bias).
array decay_gate(const array& x, const array& log_rate, const array& bias,
                 std::optional<float> lower_bound);

}  // namespace reprise::kernels
