#include "layers/grouped_attention.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include <cmath>
#include <stdexcept>

#include "layers/attention.h"
#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

// x [T, heads * head_dim], each head on its own.
mx::array norm_heads(const mx::array& x, const mx::array& weight, float eps) {
  const int rows = static_cast<int>(x.size()) / weight.shape(0);
  const auto heads = mx::reshape(x, {rows, weight.shape(0)});
  return mx::reshape(kernels::rms_norm(heads, weight, eps), x.shape());
}

}  // namespace

void require_heads(const GroupedHeads& shape) {
  if (shape.heads % shape.kv_heads != 0)
    throw std::runtime_error(
        fmt::format("{} attention heads cannot share {} key-value heads",
                    shape.heads, shape.kv_heads));
  if (shape.head_dim % 2 != 0)
    throw std::runtime_error(
        fmt::format("a head of {} dimensions cannot rotate", shape.head_dim));
}

void check_attention_bias(const Checkpoint& checkpoint,
                          const std::string& module) {
  constexpr const char* kKey = "attention_bias";
  const bool stored = checkpoint.contains(module + ".bias");
  if (flag_setting(text_settings(checkpoint.config()), kKey, stored) != stored)
    throw std::runtime_error(fmt::format(
        "the configuration's \"{}\" is {}, but tensor '{}.bias' is {}", kKey,
        !stored, module, stored ? "there" : "missing"));
}

GroupedAttention load_grouped_attention(
    const Checkpoint& checkpoint, const std::string& module,
    const GroupedAttentionOptions& options) {
  const GroupedHeads& shape = options.shape;
  const auto load = [&](const char* part, int out, int in) {
    check_attention_bias(checkpoint, module + part);
    return load_linear(checkpoint, module + part, out, in);
  };
  GroupedAttention result{.shape = shape,
                          .q = load(".q_proj", shape.q_dim(), options.hidden),
                          .k = load(".k_proj", shape.kv_dim(), options.hidden),
                          .v = load(".v_proj", shape.kv_dim(), options.hidden),
                          .o = load(".o_proj", options.hidden, shape.q_dim()),
                          .q_norm = {},
                          .k_norm = {},
                          .norm_eps = options.norm_eps};
  if (options.head_norms) {
    result.q_norm =
        load_vector(checkpoint, module + ".q_norm.weight", shape.head_dim);
    result.k_norm =
        load_vector(checkpoint, module + ".k_norm.weight", shape.head_dim);
  }
  return result;
}

mx::array grouped_attention(const mx::array& x,
                            const GroupedAttention& attention,
                            const LayerStep& step, int layer) {
  const GroupedHeads& shape = attention.shape;
  const auto project = [&](const Linear& weight,
                           const std::optional<mx::array>& norm, int heads) {
    mx::array rows = linear(x, weight);
    if (norm) rows = norm_heads(rows, *norm, attention.norm_eps);
    return kernels::rope(rows, step.rope->cos, step.rope->sin,
                         {.heads = heads,
                          .head_dim = shape.head_dim,
                          .rotary = shape.head_dim,
                          .interleaved = step.rope_interleaved});
  };
  const auto q = project(attention.q, attention.q_norm, shape.heads);
  const auto k = project(attention.k, attention.k_norm, shape.kv_heads);
  const auto y = attend(q, k, linear(x, attention.v),
                        {.pools = step.pools, .layer = layer}, step.batch,
                        {.heads = shape.heads,
                         .kv_heads = shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .scale = 1.0f / std::sqrt(float(shape.head_dim))});
  return linear(y, attention.o);
}

LayerState key_value_state(const GroupedHeads& shape, mx::Dtype dtype) {
  const int row = shape.kv_dim(), dim = shape.head_dim;
  return {{"keys", PerToken{}, row, dtype, dim},
          {"values", PerToken{}, row, dtype, dim}};
}

}  // namespace reprise
