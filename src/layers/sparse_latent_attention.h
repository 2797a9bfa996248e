// Latent attention to what an index selects: every few tokens have one pooled
// key, queries of the index's own score them, and the heads read the tokens of
// the best ones. A token's own pool, while incomplete, is always read.
// (DeepSeek-AI 2025, arXiv:2512.02556, section 2.1, has the index without
// pools. Reference: transformers, modeling_glm5_next.py.)
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cache/state_layout.h"
#include "kernels/sparse_attention.h"
#include "layers/latent_attention.h"
#include "layers/linear.h"

namespace reprise {

struct SparseLatentAttention {
  LatentAttention latent;  // its heads have no positions
  kernels::IndexShape shape;
  Linear queries;                            // [heads * dim, query_rank]
  Linear weights;                            // [heads, hidden]
  Linear keys;                               // [dim, hidden]
  mlx::core::array key_norm, key_norm_bias;  // [dim]
  mlx::core::array gates;                    // [dim, hidden]
  mlx::core::array ape;                      // [pool, dim]
};

// index_n_heads, index_head_dim, index_kpool and index_topk (tokens) of a
// configuration. Throws std::runtime_error for pools that blocks cannot hold,
// and for other forms of the index, by the setting's name.
kernels::IndexShape index_shape(const nlohmann::json& config);

// load_latent_attention() and, under "<module>.indexer", "wq_b", "wk",
// "weights_proj", "k_norm", "index_kpool_compress_gate" and
// "index_kpool_compress_ape". Throws as those, and for heads with positions.
SparseLatentAttention load_sparse_latent_attention(
    const Checkpoint& checkpoint, const std::string& module,
    const LatentHeads& heads, const kernels::IndexShape& shape, int hidden,
    float norm_eps);

// x [T, hidden] → [T, hidden]; writes the step's rows of all the layer's
// families (sparse_latent_state()).
mlx::core::array sparse_latent_attention(const mlx::core::array& x,
                                         const SparseLatentAttention& attention,
                                         const LayerStep& step, int layer);

// "latent", a row a token; "index", a row a pool; "index_partial", the rows of
// the pool that is not complete.
LayerState sparse_latent_state(const LatentHeads& heads,
                               const kernels::IndexShape& shape,
                               mlx::core::Dtype dtype);

}  // namespace reprise
