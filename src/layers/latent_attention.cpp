#include "layers/latent_attention.h"

#include <mlx/ops.h>

#include <cmath>
#include <vector>

#include "kernels/ops.h"
#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using kernels::StateRows;

struct KeysAndValues {
  StackedMatrix embed_q, unembed_out;
};

// [heads, out, in] as floats: what is packed in exactly the values it stands
// for.
mx::array as_floats(const StackedMatrix& matrices) {
  const auto* q = std::get_if<kernels::QuantizedExperts>(&matrices);
  if (!q) return std::get<mx::array>(matrices);
  return mx::dequantize(q->words, mx::astype(q->scales, mx::float32),
                        mx::astype(q->biases, mx::float32), q->group_size,
                        q->bits);
}

StackedMatrix as_heads(const Matrix& matrix, int heads) {
  const auto split = [&](const mx::array& a) {
    return mx::reshape(a, {heads, a.shape(0) / heads, a.shape(1)});
  };
  if (const auto* q = std::get_if<kernels::QuantizedMatrix>(&matrix))
    return kernels::QuantizedExperts{split(q->words), split(q->scales),
                                     split(q->biases), q->group_size, q->bits};
  return split(std::get<mx::array>(matrix));
}

KeysAndValues load_keys_and_values(const Checkpoint& checkpoint,
                                   const std::string& module,
                                   const LatentHeads& s) {
  if (checkpoint.contains(module + ".embed_q.weight"))
    return {load_stacked(checkpoint, module + ".embed_q",
                         {s.heads, s.latent, s.nope}),
            load_stacked(checkpoint, module + ".unembed_out",
                         {s.heads, s.value, s.latent})};
  const Linear both = load_linear(checkpoint, module + ".kv_b_proj",
                                  s.heads * (s.nope + s.value), s.latent);
  const StackedMatrix heads = as_heads(both.weight, s.heads);
  const auto keys = as_floats(stacked_rows(heads, 0, s.nope));
  return {mx::contiguous(mx::swapaxes(keys, 1, 2)),
          stacked_rows(heads, s.nope, s.nope + s.value)};
}

mx::array rotate(const mx::array& x, int heads, int dim,
                 const LayerStep& step) {
  return kernels::rope(x, step.rope->cos, step.rope->sin,
                       {.heads = heads,
                        .head_dim = dim,
                        .rotary = dim,
                        .interleaved = step.rope_interleaved});
}

// Of a row that holds a latent and, behind it, a key to be rotated.
StateRows write_latents(const mx::array& kv, const LatentAttention& a,
                        const LayerStep& step, int layer) {
  const auto latent = head_columns(kv, 1, 0, a.shape.latent);
  return kernels::append(step.pools.rows(layer, 0),
                         kernels::rms_norm(latent, a.kv_norm, a.norm_eps),
                         step.batch);
}

}  // namespace

LatentHeads latent_heads(const nlohmann::json& config) {
  return {.heads = positive_setting(config, "num_attention_heads"),
          .nope = positive_setting(config, "qk_nope_head_dim"),
          .rope = count_setting(config, "qk_rope_head_dim", 0),
          .value = positive_setting(config, "v_head_dim"),
          .latent = positive_setting(config, "kv_lora_rank"),
          .query_rank = positive_setting(config, "q_lora_rank")};
}

LatentAttention load_latent_attention(const Checkpoint& checkpoint,
                                      const std::string& module,
                                      const LatentHeads& shape, int hidden,
                                      float norm_eps) {
  for (const char* part : {".q_a_proj", ".kv_a_proj_with_mqa", ".o_proj"})
    check_attention_bias(checkpoint, module + part);
  const auto norm = [&](const char* part, int dim) {
    return load_vector(checkpoint, module + part, dim);
  };
  auto [embed_q, unembed_out] = load_keys_and_values(checkpoint, module, shape);
  const auto a = load_linears(
      checkpoint, module + ".qkv_a_proj",
      {{module + ".q_a_proj", shape.query_rank},
       {module + ".kv_a_proj_with_mqa", shape.latent + shape.rope}},
      hidden);
  return {.shape = shape,
          .q_a = a[0],
          .q_norm = norm(".q_a_layernorm.weight", shape.query_rank),
          .q_b = load_linear(checkpoint, module + ".q_b_proj",
                             shape.heads * shape.key(), shape.query_rank),
          .kv_a = a[1],
          .kv_norm = norm(".kv_a_layernorm.weight", shape.latent),
          .embed_q = std::move(embed_q),
          .unembed_out = std::move(unembed_out),
          .o = load_linear(checkpoint, module + ".o_proj", hidden,
                           shape.heads * shape.value),
          .norm_eps = norm_eps};
}

mx::array query_latent(const mx::array& x, const LatentAttention& a) {
  return kernels::rms_norm(linear(x, a.q_a), a.q_norm, a.norm_eps);
}

mx::array absorbed_queries(const mx::array& query_latent,
                           const LatentAttention& a, const LayerStep& step) {
  const LatentHeads& s = a.shape;
  const auto q = linear(query_latent, a.q_b);
  if (s.rope == 0) return head_matmul(q, a.embed_q);
  const auto nope = head_matmul(head_columns(q, s.heads, 0, s.nope), a.embed_q);
  const auto rope =
      rotate(head_columns(q, s.heads, s.nope, s.key()), s.heads, s.rope, step);
  const int rows = q.shape(0);
  return mx::reshape(
      mx::concatenate({mx::reshape(nope, {rows, s.heads, s.latent}),
                       mx::reshape(rope, {rows, s.heads, s.rope})},
                      2),
      {rows, s.heads * (s.latent + s.rope)});
}

StateRows append_latents(const mx::array& x, const LatentAttention& a,
                         const LayerStep& step, int layer) {
  return write_latents(linear(x, a.kv_a), a, step, layer);
}

mx::array latent_output(const mx::array& y, const LatentAttention& a) {
  return linear(head_matmul(y, a.unembed_out), a.o);
}

kernels::AttentionShape latent_shape(const LatentHeads& heads) {
  return {.heads = heads.heads,
          .kv_heads = 1,
          .head_dim = heads.latent + heads.rope,
          .scale = 1.0f / std::sqrt(float(heads.key())),
          .value_dim = heads.latent};
}

mx::array latent_attention(const mx::array& x, const LatentAttention& a,
                           const LayerStep& step, int layer) {
  const LatentHeads& s = a.shape;
  const auto kv = linear(x, a.kv_a);
  const StateRows latents = write_latents(kv, a, step, layer);
  std::vector<StateRows> keys{latents};
  if (s.rope > 0) {
    const auto key = head_columns(kv, 1, s.latent, s.latent + s.rope);
    keys.push_back(kernels::append(step.pools.rows(layer, 1),
                                   rotate(key, 1, s.rope, step), step.batch));
  }
  const auto q = absorbed_queries(query_latent(x, a), a, step);
  return latent_output(
      kernels::attention(q, keys, latents, step.batch, latent_shape(s)), a);
}

LayerState latent_state(const LatentHeads& shape, mx::Dtype dtype) {
  LayerState state{{"latent", PerToken{}, shape.latent, dtype, shape.latent}};
  if (shape.rope > 0)
    state.push_back({"rope_key", PerToken{}, shape.rope, dtype, shape.rope});
  return state;
}

}  // namespace reprise
