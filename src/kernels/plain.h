// The plain composition of each operation of kernels/ops.h out of MLX's own
// operations: what the fast ones are tested against, and what runs where
// there is no fast one. Same contracts, but row-invariance is not promised.
#pragma once

#include <optional>
#include <vector>

#include "kernels/ops.h"

namespace reprise::kernels::plain {

array matmul(const array& x, const array& w);
array matmul(const array& x, const QuantizedMatrix& w);
array take_rows(const array& w, const array& ids, mlx::core::Dtype dtype);
array take_rows(const QuantizedMatrix& w, const array& ids,
                mlx::core::Dtype dtype);
array rms_norm(const array& x, const array& weight, float eps);
array swiglu(const array& gate, const array& up);
array add(const array& a, const array& b);
array rope(const array& x, const array& cos, const array& sin,
           const RopeShape& shape);
// Reads whole blocks with take and masks; rows outside of what a span sees are
// zeroed.
array attention(const array& q, const std::vector<StateRows>& keys,
                const StateRows& values, const RaggedBatchPtr& batch,
                const AttentionShape& shape,
                const std::optional<array>& sinks = std::nullopt);

// Keys and gates of the first tokens of a sequence, [n * pool, dim], as the
// index keys of its first n pools, [n, dim].
array pool_index(const array& keys, const array& gates, const array& ape);

// Masks what the index does not select.
array sparse_attention(const array& q, const std::vector<StateRows>& keys,
                       const StateRows& values, const IndexQueries& index,
                       const IndexPools& pools, const RaggedBatchPtr& batch,
                       const AttentionShape& shape,
                       const IndexShape& index_shape);

}  // namespace reprise::kernels::plain
