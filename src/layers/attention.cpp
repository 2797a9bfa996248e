#include "layers/attention.h"

namespace reprise {

mlx::core::array attend(const mlx::core::array& q, const mlx::core::array& k,
                        const mlx::core::array& v, const AttendState& state,
                        const kernels::RaggedBatchPtr& batch,
                        const kernels::AttentionShape& shape) {
  const auto keys =
      kernels::append(state.pools.rows(state.layer, state.keys), k, batch);
  const auto values =
      kernels::append(state.pools.rows(state.layer, state.values), v, batch);
  return kernels::attention(q, {keys}, values, batch, shape);
}

}  // namespace reprise
