#include "layers/sparse_latent_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "base/limits.h"
#include "kernels/ops.h"
#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

// That of the reference's LayerNorm; no setting names it.
constexpr float kKeyNormEps = 1e-6f;

// Settings that would make it another index.
void refuse_other_indices(const json& config) {
  for (const char* key :
       {"index_kpool_compress", "index_kpool_always_select_tail"})
    if (!flag_setting(config, key, true))
      throw std::runtime_error(fmt::format(
          "the configuration's \"{}\" is false; only true is served", key));
  for (const char* key :
       {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"})
    if (config.contains(key) && !config[key].is_null())
      throw std::runtime_error(fmt::format(
          "the configuration's \"{}\" is {}; layers that share an index are "
          "not served",
          key, config[key].dump()));
}

}  // namespace

kernels::IndexShape index_shape(const json& config) {
  refuse_other_indices(config);
  const int dim = positive_setting(config, "index_head_dim");
  const int pool = positive_setting(config, "index_kpool");
  const int budget = positive_setting(config, "index_topk");
  if (pool < 2 || kBlockTokens % pool != 0)
    throw std::runtime_error(
        fmt::format("the configuration's \"index_kpool\" is {}; it must divide "
                    "{} and be at least 2",
                    pool, kBlockTokens));
  if (budget < pool)
    throw std::runtime_error(
        fmt::format("the configuration's \"index_topk\" is {}; it must be at "
                    "least \"index_kpool\", {}",
                    budget, pool));
  return {.heads = positive_setting(config, "index_n_heads"),
          .dim = dim,
          .pool = pool,
          .budget = budget,
          .scale = 1.0f / std::sqrt(float(dim))};
}

SparseLatentAttention load_sparse_latent_attention(
    const Checkpoint& checkpoint, const std::string& module,
    const LatentHeads& heads, const kernels::IndexShape& shape, int hidden,
    float norm_eps) {
  if (heads.rope != 0)
    throw std::runtime_error(
        fmt::format("the configuration's \"qk_rope_head_dim\" is {}; with an "
                    "index only 0 is served",
                    heads.rope));
  const std::string index = module + ".indexer";
  const auto load = [&](const char* part, int out, int in) {
    return load_linear(checkpoint, index + part, out, in);
  };
  const auto norm = [&](const char* part) {
    return load_vector(checkpoint, index + part, shape.dim);
  };
  return {.latent = load_latent_attention(checkpoint, module, heads, hidden,
                                          norm_eps),
          .shape = shape,
          .queries = load(".wq_b", shape.heads * shape.dim, heads.query_rank),
          .weights = load(".weights_proj", shape.heads, hidden),
          .keys = load(".wk", shape.dim, hidden),
          .key_norm = norm(".k_norm.weight"),
          .key_norm_bias = norm(".k_norm.bias"),
          .gates = load_tensor(checkpoint, index + ".index_kpool_compress_gate",
                               {shape.dim, hidden}),
          .ape = load_tensor(checkpoint, index + ".index_kpool_compress_ape",
                             {shape.pool, shape.dim})};
}

mx::array sparse_latent_attention(const mx::array& x,
                                  const SparseLatentAttention& a,
                                  const LayerStep& step, int layer) {
  const auto low = query_latent(x, a.latent);
  const auto latents = append_latents(x, a.latent, step, layer);
  const auto keys = kernels::layer_norm(linear(x, a.keys), a.key_norm,
                                        a.key_norm_bias, kKeyNormEps);
  const auto pools = kernels::pool_index(
      {step.pools.pool(layer, 1), step.pools.pool(layer, 2)}, keys,
      kernels::matmul(x, a.gates), a.ape, step.batch);
  const kernels::IndexQueries index{
      linear(low, a.queries),
      kernels::scale(linear(x, a.weights, mx::float32),
                     1.0f / std::sqrt(float(a.shape.heads)))};
  const auto q = absorbed_queries(low, a.latent, step);
  const auto y =
      kernels::sparse_attention(q, {latents}, latents, index, pools, step.batch,
                                latent_shape(a.latent.shape), a.shape);
  return latent_output(y, a.latent);
}

LayerState sparse_latent_state(const LatentHeads& heads,
                               const kernels::IndexShape& shape,
                               mx::Dtype dtype) {
  LayerState state = latent_state(heads, dtype);
  state.push_back({"index", Pooled{shape.pool}, shape.dim, dtype});
  state.push_back(
      {"index_partial", Snapshot{}, (shape.pool - 1) * 2 * shape.dim, dtype});
  return state;
}

}  // namespace reprise
