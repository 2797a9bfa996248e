// The plain composition of each operation of kernels/ops.h out of MLX's own
// operations: what the fast ones are tested against, and what runs where
// there is no fast one. Same contracts, but row-invariance is not promised.
#pragma once

#include <optional>
#include <vector>

#include "kernels/experts.h"
#include "kernels/hyper.h"
#include "kernels/ops.h"
#include "kernels/recurrence.h"

namespace reprise::kernels::plain {

array matmul(const array& x, const array& w);
array matmul(const array& x, const QuantizedMatrix& w);
array matmul(const array& x, const array& w, mlx::core::Dtype out);
array matmul(const array& x, const QuantizedMatrix& w, mlx::core::Dtype out);
array take_rows(const array& w, const array& ids, mlx::core::Dtype dtype);
array take_rows(const QuantizedMatrix& w, const array& ids,
                mlx::core::Dtype dtype);
array rms_norm(const array& x, const array& weight, float eps);
array unweighted_rms_norm(const array& x, int head_dim, float eps);
array gated_rms_norm(const array& x, const array& weight, const array& gate,
                     float eps);
array layer_norm(const array& x, const array& weight, const array& bias,
                 float eps);
array l2_norm(const array& x, int head_dim, float eps, float factor);
array swiglu(const array& gate, const array& up);
array swiglu(const array& gate, const array& up, float limit);
array geglu(const array& gate, const array& up);
array sigmoid_gate(const array& x, const array& gate);
array sigmoid(const array& x);
array scale(const array& x, float factor);
array softcap(const array& x, float cap);
array add(const array& a, const array& b);
array rope(const array& x, const array& cos, const array& sin,
           const RopeShape& shape);
// Reads whole blocks with take and masks; rows outside of what a span sees are
// zeroed.
array attention(const array& q, const std::vector<StateRows>& keys,
                const StateRows& values, const RaggedBatchPtr& batch,
                const AttentionShape& shape,
                const std::optional<array>& sinks = std::nullopt);

array expert_matmul(const array& x, const array& w, const array& ids);
array expert_matmul(const array& x, const QuantizedExperts& w,
                    const array& ids);
array expert_sum(const array& y, const array& weights);
Routing route(const array& logits, const RoutingRule& rule,
              const std::optional<array>& bias = {},
              const std::optional<array>& expert_scale = {});

// Keys and gates of the first tokens of a sequence, [n * pool, dim], as the
// index keys of its first n pools, [n, dim].
array pool_index(const array& keys, const array& gates, const array& ape);

// Masks what the index does not select.
array sparse_attention(const array& q, const std::vector<StateRows>& keys,
                       const StateRows& values, const IndexQueries& index,
                       const IndexPools& pools, const RaggedBatchPtr& batch,
                       const AttentionShape& shape,
                       const IndexShape& index_shape);

// One sequence. tail [K - 1, C] are the rows before x; so they are in what
// comes back as `pool`.
Carried short_conv(const array& x, const array& weight, const array& tail,
                   bool silu);
// One sequence. state [heads * key_dim * value_dim]; `pool` is the one after
// it. Token by token with a chunk of 1; otherwise the chunked form, which
// solves for all tokens of a chunk at once.
Carried gated_delta(const DeltaInputs& inputs, const array& state,
                    const DeltaShape& shape, int chunk);
array decay_gate(const array& x, const array& log_rate, const array& bias,
                 std::optional<float> lower_bound);

HyperInput hyper_in(const array& streams, const HyperWeights& weights);
array hyper_out(const array& streams, const array& y, const array& mix);
array hyper_mean(const array& streams, int count);

}  // namespace reprise::kernels::plain
