// Llama 2 and 3 and what shares their form (SmolLM2, ...): RMS norm, rotary
// grouped-query attention, SwiGLU. Reference: transformers, modeling_llama.py.
#include <fmt/format.h>
#include <mlx/ops.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "layers/attention.h"
#include "layers/linear.h"
#include "layers/rope.h"
#include "models/config.h"
#include "models/registry.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

struct LlamaConfig {
  explicit LlamaConfig(const Checkpoint& checkpoint);

  int vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim;
  int context;
  float norm_eps;
  bool tied, rope_interleaved;
  std::vector<float> frequencies;

 private:
  explicit LlamaConfig(const nlohmann::json& json);
};

LlamaConfig::LlamaConfig(const Checkpoint& checkpoint)
    : LlamaConfig(checkpoint.config()) {
  frequencies = load_rope_frequencies(checkpoint, head_dim);
}

LlamaConfig::LlamaConfig(const nlohmann::json& json)
    : vocabulary(positive_setting(json, "vocab_size")),
      hidden(positive_setting(json, "hidden_size")),
      intermediate(positive_setting(json, "intermediate_size")),
      layers(positive_setting(json, "num_hidden_layers")),
      heads(positive_setting(json, "num_attention_heads")),
      kv_heads(positive_setting(json, "num_key_value_heads", heads)),
      head_dim(positive_setting(json, "head_dim",
                                hidden >= heads ? hidden / heads : 1)),
      context(positive_setting(json, "max_position_embeddings", 2048)),
      norm_eps(float(number_setting(json, "rms_norm_eps", 1e-6))),
      tied(flag_setting(json, "tie_word_embeddings", false)),
      // GGUF files of this architecture store the rows of Q and K so that
      // rotary pairs are neighbours; scores do not depend on the order.
      rope_interleaved(flag_setting(json, "rope_interleaved", false)) {
  if (heads % kv_heads != 0)
    throw std::runtime_error(fmt::format(
        "{} attention heads cannot share {} key-value heads", heads, kv_heads));
  if (head_dim % 2 != 0)
    throw std::runtime_error(
        fmt::format("a head of {} dimensions cannot rotate", head_dim));
}

struct LlamaLayer {
  LlamaLayer(const Checkpoint& ckpt, const LlamaConfig& c, int index);

  mx::array attention_norm, mlp_norm;
  Linear q, k, v, o;
  Linear gate, up, down;
};

std::string layer_name(int index, const char* part) {
  return fmt::format("model.layers.{}.{}", index, part);
}

LlamaLayer::LlamaLayer(const Checkpoint& ckpt, const LlamaConfig& c, int i)
    : attention_norm(
          load_vector(ckpt, layer_name(i, "input_layernorm.weight"), c.hidden)),
      mlp_norm(load_vector(
          ckpt, layer_name(i, "post_attention_layernorm.weight"), c.hidden)),
      q(load_linear(ckpt, layer_name(i, "self_attn.q_proj"),
                    c.heads * c.head_dim, c.hidden)),
      k(load_linear(ckpt, layer_name(i, "self_attn.k_proj"),
                    c.kv_heads * c.head_dim, c.hidden)),
      v(load_linear(ckpt, layer_name(i, "self_attn.v_proj"),
                    c.kv_heads * c.head_dim, c.hidden)),
      o(load_linear(ckpt, layer_name(i, "self_attn.o_proj"), c.hidden,
                    c.heads * c.head_dim)),
      gate(load_linear(ckpt, layer_name(i, "mlp.gate_proj"), c.intermediate,
                       c.hidden)),
      up(load_linear(ckpt, layer_name(i, "mlp.up_proj"), c.intermediate,
                     c.hidden)),
      down(load_linear(ckpt, layer_name(i, "mlp.down_proj"), c.hidden,
                       c.intermediate)) {}

class Llama : public Model {
 public:
  Llama(const Checkpoint& ckpt, const ModelOptions& options)
      : config_(ckpt),
        dtype_(options.dtype),
        embedding_(load_linear(ckpt, "model.embed_tokens", config_.vocabulary,
                               config_.hidden)),
        norm_(load_vector(ckpt, "model.norm.weight", config_.hidden)),
        head_(config_.tied ? embedding_
                           : load_linear(ckpt, "lm_head", config_.vocabulary,
                                         config_.hidden)),
        frequencies_(config_.frequencies.begin(),
                     mx::Shape{static_cast<int>(config_.frequencies.size())}) {
    for (int i = 0; i < config_.layers; ++i)
      layers_.emplace_back(ckpt, config_, i);
  }

  ModelShape shape() const override {
    return {config_.vocabulary, config_.context, config_.layers};
  }

  StateLayout state_layout() const override {
    const int row = config_.kv_heads * config_.head_dim;
    return StateLayout(config_.layers, {{"keys", PerToken{}, row, dtype_},
                                        {"values", PerToken{}, row, dtype_}});
  }

  mx::array forward(const StepInput& in,
                    const BlockPools& pools) const override {
    const auto rope = kernels::rope_table(*in.batch, frequencies_);
    mx::array x = embed(embedding_, in.token_ids, dtype_);
    for (int i = 0; i < config_.layers; ++i) {
      const LlamaLayer& layer = layers_[i];
      x = kernels::add(x, attention(x, layer, i, in, pools, rope));
      x = kernels::add(x, mlp(x, layer));
    }
    // Only rows whose logits are wanted go through the head.
    x = mx::take(x, in.logits_rows, 0);
    x = kernels::rms_norm(x, norm_, config_.norm_eps);
    return mx::astype(linear(x, head_), mx::float32);
  }

 private:
  mx::array attention(const mx::array& x, const LlamaLayer& layer, int index,
                      const StepInput& in, const BlockPools& pools,
                      const kernels::RopeTable& rope) const {
    const LlamaConfig& c = config_;
    const auto h = kernels::rms_norm(x, layer.attention_norm, c.norm_eps);
    const auto rotate = [&](const mx::array& rows, int heads) {
      return kernels::rope(rows, rope.cos, rope.sin,
                           {.heads = heads,
                            .head_dim = c.head_dim,
                            .rotary = c.head_dim,
                            .interleaved = c.rope_interleaved});
    };
    const auto q = rotate(linear(h, layer.q), c.heads);
    const auto k = rotate(linear(h, layer.k), c.kv_heads);
    const auto y = attend(q, k, linear(h, layer.v),
                          {.pools = pools, .layer = index}, in.batch,
                          {.heads = c.heads,
                           .kv_heads = c.kv_heads,
                           .head_dim = c.head_dim,
                           .scale = 1.0f / std::sqrt(float(c.head_dim))});
    return linear(y, layer.o);
  }

  mx::array mlp(const mx::array& x, const LlamaLayer& layer) const {
    const auto h = kernels::rms_norm(x, layer.mlp_norm, config_.norm_eps);
    return linear(kernels::swiglu(linear(h, layer.gate), linear(h, layer.up)),
                  layer.down);
  }

  const LlamaConfig config_;
  const mx::Dtype dtype_;
  const Linear embedding_;
  const mx::array norm_;
  const Linear head_;
  const mx::array frequencies_;
  std::vector<LlamaLayer> layers_;
};

REGISTER_MODEL("llama",
               [](const Checkpoint& ckpt, const ModelOptions& options) {
                 return std::make_unique<Llama>(ckpt, options);
               });

}  // namespace
}  // namespace reprise
