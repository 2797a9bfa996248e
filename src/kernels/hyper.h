// Hyper-connections: a residual stream that is S streams side by side. Before
// a sublayer they are summed up with weights of the token's own, behind it
// they are mixed and its output is added to each. Contracts as in ops.h: on
// the CPU the bits of a row depend on that row alone.
// (Zhu et al. 2024, arXiv:2409.19606; the doubly stochastic mix: Xie et al.
// 2025, arXiv:2512.24880)
#pragma once

#include <mlx/array.h>

#include "kernels/ops.h"

namespace reprise::kernels {

// For S = 1..8 streams of D numbers; their rows are [T, S * D], stream after
// stream.
struct HyperWeights {
  array fn;     // [2 S + S², S * D], float32, bfloat16 or float16
  array base;   // float32 [2 S + S²]
  array scale;  // float32 [3], for pre, post and C
  int streams = 4;
  float eps = 1e-5f;      // of the norm
  float mix_eps = 1e-6f;  // of the gates and the balancing
  int iterations = 20;    // of the balancing, >= 1
};

struct HyperInput {
  array u;    // [T, D], in the streams' dtype
  array mix;  // float32 [T, 2 S + S²]: pre [S], post [S], C [S, S]
};

// With m = fn · x / sqrt(mean(x²) + eps) over all of a row x, in float32:
//   pre_h  = σ(m[h] scale[0] + base[h]) + mix_eps
//   post_h = 2 σ(m[S + h] scale[1] + base[S + h])
//   C = softmax of each row of m[2 S + ..] scale[2] + base[2 S + ..], plus
//     mix_eps; then columns over (their sum + mix_eps); then, `iterations` - 1
//     times, rows and columns alike
//   u = Σ_h pre_h * stream_h, rounded once
HyperInput hyper_in(const array& streams, const HyperWeights& weights);

// Stream i of the result is post_i * y + Σ_j C[j, i] * stream_j, in float32,
// rounded once. y [T, D] in the streams' dtype.
array hyper_out(const array& streams, const array& y, const array& mix);

// The mean of `count` streams: [T, D].
array hyper_mean(const array& streams, int count);

}  // namespace reprise::kernels
