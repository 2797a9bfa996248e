#include "layers/mixed_attention.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/check.h"
#include "kernels/ops.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

mx::array rotate(const mx::array& x, int heads, const AttentionKind& kind,
                 const LayerStep& step) {
  return kernels::rope(x, step.rope->cos, step.rope->sin,
                       {.heads = heads,
                        .head_dim = kind.shape.head_dim,
                        .rotary = kind.shape.head_dim,
                        .interleaved = step.rope_interleaved});
}

}  // namespace

std::vector<int> key_sources(const std::vector<std::string>& types,
                             int shared) {
  const int layers = static_cast<int>(types.size());
  std::vector<int> sources;
  for (int i = 0; i < layers; ++i) {
    int source = i;
    if (i >= layers - shared) {
      source = layers - shared - 1;
      while (source >= 0 && types[source] != types[i]) --source;
    }
    if (source < 0)
      throw std::runtime_error(fmt::format(
          "{} layers with keys and values of earlier ones leave none that "
          "layer {} ({}) could read (\"num_kv_shared_layers\")",
          shared, i, types[i]));
    sources.push_back(source);
  }
  return sources;
}

MixedAttention load_mixed_attention(const Checkpoint& checkpoint,
                                    const std::string& module,
                                    const AttentionKind& kind, int hidden,
                                    bool own_keys) {
  const GroupedHeads& shape = kind.shape;
  const auto load = [&](const char* part, int out, int in) {
    check_attention_bias(checkpoint, module + part);
    return load_linear(checkpoint, module + part, out, in);
  };
  const auto norm = [&](const char* part) {
    return load_vector(checkpoint, module + part, shape.head_dim);
  };
  MixedAttention result{.q = load(".q_proj", shape.q_dim(), hidden),
                        .o = load(".o_proj", hidden, shape.q_dim()),
                        .k = {},
                        .v = {},
                        .q_norm = norm(".q_norm.weight"),
                        .k_norm = {}};
  if (!own_keys) return result;
  result.k = load(".k_proj", shape.kv_dim(), hidden);
  result.k_norm = norm(".k_norm.weight");
  if (!kind.keys_are_values) result.v = load(".v_proj", shape.kv_dim(), hidden);
  return result;
}

KeysAndValues write_keys_and_values(const mx::array& x,
                                    const MixedAttention& attention,
                                    const AttentionKind& kind,
                                    const LayerStep& step, int layer) {
  CHECK(attention.k && attention.k_norm, "layer {}", layer);
  const int dim = kind.shape.head_dim;
  const auto k = linear(x, *attention.k);
  const auto v = attention.v ? linear(x, *attention.v) : k;
  const auto write = [&](int family, const mx::array& rows) {
    return kernels::append(step.pools.rows(layer, family), rows, step.batch);
  };
  return {
      write(0, rotate(kernels::rms_norm(k, *attention.k_norm, kind.norm_eps),
                      kind.shape.kv_heads, kind, step)),
      write(1, kernels::unweighted_rms_norm(v, dim, kind.norm_eps))};
}

mx::array mixed_attention(const mx::array& x, const MixedAttention& attention,
                          const AttentionKind& kind, const LayerStep& step,
                          const KeysAndValues& state) {
  const GroupedHeads& shape = kind.shape;
  const auto q = rotate(kernels::rms_norm(linear(x, attention.q),
                                          attention.q_norm, kind.norm_eps),
                        shape.heads, kind, step);
  const auto y = kernels::attention(q, {state.keys}, state.values, step.batch,
                                    {.heads = shape.heads,
                                     .kv_heads = shape.kv_heads,
                                     .head_dim = shape.head_dim,
                                     .window = kind.window});
  return linear(y, attention.o);
}

LayerState mixed_state(const AttentionKind& kind, mx::Dtype dtype) {
  const int row = kind.shape.kv_dim();
  const Growth growth =
      kind.window > 0 ? Growth(Window{kind.window}) : Growth(PerToken{});
  const int dim = kind.shape.head_dim;
  return {{"keys", growth, row, dtype, dim},
          {"values", growth, row, dtype, dim}};
}

}  // namespace reprise
