#include "layers/latent_attention.h"

#include <mlx/ops.h>

#include <cmath>

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

// Columns [begin, end) of each of `heads` parts of x's rows.
mx::array head_columns(const mx::array& x, int heads, int begin, int end) {
  const int rows = x.shape(0);
  const auto parts = mx::reshape(x, {rows, heads, x.shape(1) / heads});
  return mx::reshape(mx::slice(parts, {0, 0, begin}, {rows, heads, end}),
                     {rows, heads * (end - begin)});
}

mx::array rotate(const mx::array& x, int heads, int dim,
                 const LayerStep& step) {
  return kernels::rope(x, step.rope.cos, step.rope.sin,
                       {.heads = heads,
                        .head_dim = dim,
                        .rotary = dim,
                        .interleaved = step.rope_interleaved});
}

// Every head's query in the latent's space, then its rotated part.
mx::array absorbed_queries(const mx::array& x, const LatentAttention& a,
                           const LayerStep& step) {
  const LatentHeads& s = a.shape;
  const auto low = kernels::rms_norm(linear(x, a.q_a), a.q_norm, a.norm_eps);
  const auto q = linear(low, a.q_b);
  const auto nope = head_matmul(head_columns(q, s.heads, 0, s.nope), a.embed_q);
  const auto rope =
      rotate(head_columns(q, s.heads, s.nope, s.key()), s.heads, s.rope, step);
  const int rows = x.shape(0);
  return mx::reshape(
      mx::concatenate({mx::reshape(nope, {rows, s.heads, s.latent}),
                       mx::reshape(rope, {rows, s.heads, s.rope})},
                      2),
      {rows, s.heads * (s.latent + s.rope)});
}

}  // namespace

LatentHeads latent_heads(const nlohmann::json& config) {
  return {.heads = positive_setting(config, "num_attention_heads"),
          .nope = positive_setting(config, "qk_nope_head_dim"),
          .rope = positive_setting(config, "qk_rope_head_dim"),
          .value = positive_setting(config, "v_head_dim"),
          .latent = positive_setting(config, "kv_lora_rank"),
          .query_rank = positive_setting(config, "q_lora_rank")};
}

LatentAttention load_latent_attention(const Checkpoint& checkpoint,
                                      const std::string& module,
                                      const LatentHeads& shape, int hidden,
                                      float norm_eps) {
  const auto load = [&](const char* part, int out, int in) {
    check_attention_bias(checkpoint, module + part);
    return load_linear(checkpoint, module + part, out, in);
  };
  const auto norm = [&](const char* part, int dim) {
    return load_vector(checkpoint, module + part, dim);
  };
  auto [embed_q, unembed_out] = load_keys_and_values(checkpoint, module, shape);
  const int out = shape.heads * shape.value;
  return {
      .shape = shape,
      .q_a = load(".q_a_proj", shape.query_rank, hidden),
      .q_norm = norm(".q_a_layernorm.weight", shape.query_rank),
      .q_b = load_linear(checkpoint, module + ".q_b_proj",
                         shape.heads * shape.key(), shape.query_rank),
      .kv_a = load(".kv_a_proj_with_mqa", shape.latent + shape.rope, hidden),
      .kv_norm = norm(".kv_a_layernorm.weight", shape.latent),
      .embed_q = std::move(embed_q),
      .unembed_out = std::move(unembed_out),
      .o = load(".o_proj", hidden, out),
      .norm_eps = norm_eps};
}

mx::array latent_attention(const mx::array& x, const LatentAttention& a,
                           const LayerStep& step, int layer) {
  const LatentHeads& s = a.shape;
  const auto kv = linear(x, a.kv_a);
  const auto latent = kernels::rms_norm(head_columns(kv, 1, 0, s.latent),
                                        a.kv_norm, a.norm_eps);
  const auto key =
      rotate(head_columns(kv, 1, s.latent, s.latent + s.rope), 1, s.rope, step);
  const auto write = [&](int family, const mx::array& rows, int dim) {
    return StateRows{.plain = kernels::append(step.pools.pool(layer, family),
                                              rows, step.batch),
                     .dim = dim};
  };
  const StateRows latents = write(0, latent, s.latent);
  const StateRows keys = write(1, key, s.rope);
  const auto y = kernels::attention(absorbed_queries(x, a, step),
                                    {latents, keys}, latents, step.batch,
                                    {.heads = s.heads,
                                     .kv_heads = 1,
                                     .head_dim = s.latent + s.rope,
                                     .scale = 1.0f / std::sqrt(float(s.key())),
                                     .value_dim = s.latent});
  return linear(head_matmul(y, a.unembed_out), a.o);
}

LayerState latent_state(const LatentHeads& shape, mx::Dtype dtype) {
  return {{"latent", PerToken{}, shape.latent, dtype},
          {"rope_key", PerToken{}, shape.rope, dtype}};
}

}  // namespace reprise
