// GLM-5.3-Flash, its text: layers with a recurrent state (KDA) between layers
// of latent attention to what an index selects, each with an MLP or experts,
// on a residual stream that is several. No positions anywhere. Reference:
// transformers, modeling_glm5_next.py.
#include <fmt/format.h>
#include <mlx/array.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernels/hyper.h"
#include "kernels/ops.h"
#include "layers/config.h"
#include "layers/decoder.h"
#include "layers/hyper_connection.h"
#include "layers/kda.h"
#include "layers/mlp.h"
#include "layers/moe.h"
#include "layers/sparse_latent_attention.h"
#include "models/registry.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

struct Config {
  DecoderConfig frame;
  std::vector<bool> recurrent;  // by layer: KDA
  std::vector<bool> sparse;     // by layer: experts
  KdaHeads kda;
  LatentHeads latent;
  kernels::IndexShape index;
  HyperOptions hyper;
  Activation activation;
  MoeOptions moe;
};

[[noreturn]] void refuse(const std::string& what) {
  throw std::runtime_error("the configuration's " + what);
}

void refuse_what_is_not_served(const json& text) {
  word_setting(text, "hidden_act", {"silu"});
  for (const char* key : {"mhc", "mla_use_nope"})
    if (!flag_setting(text, key, true))
      refuse(fmt::format("\"{}\" is false; only true is served", key));
}

// A list of layers in "linear_attn_config" counts from 0, and says no more than
// "layer_types" does.
void check_listed(const json& listed, const char* key,
                  const std::vector<bool>& kind) {
  if (!listed.contains(key)) return;
  std::vector<int> want;
  for (std::size_t i = 0; i < kind.size(); ++i)
    if (kind[i]) want.push_back(int(i));
  if (listed[key] != json(want))
    refuse(fmt::format("\"{}\" is {}, which \"layer_types\" contradicts: {}",
                       key, listed[key].dump(), json(want).dump()));
}

std::vector<bool> recurrent_layers(const json& text, int layers) {
  constexpr const char* kKda = "linear_attention";
  constexpr const char* kSparse = "deepseek_sparse_attention";
  const auto types =
      word_list_setting(text, "layer_types", {kKda, kSparse}, layers);
  if (types.empty()) refuse("\"layer_types\" is missing");
  word_list_setting(text, "indexer_types", {"full"}, layers);
  std::vector<bool> recurrent, sparse;
  for (const std::string& type : types) {
    recurrent.push_back(type == kKda);
    sparse.push_back(type == kSparse);
  }
  check_listed(text["linear_attn_config"], "kda_layers", recurrent);
  check_listed(text["linear_attn_config"], "full_attn_layers", sparse);
  return recurrent;
}

Config read_config(const json& config) {
  const json& text = text_settings(config);
  refuse_what_is_not_served(text);
  if (!text.contains("linear_attn_config") ||
      !text["linear_attn_config"].is_object())
    refuse("\"linear_attn_config\" is missing");
  Config c;
  c.frame = decoder_frame(text);
  const DecoderConfig& f = c.frame;
  c.recurrent = recurrent_layers(text, f.layers);
  c.sparse = sparse_layers(text, f.layers);
  c.kda = kda_heads(text["linear_attn_config"]);
  c.latent = latent_heads(text);
  if (const int key = c.latent.key();
      positive_setting(text, "qk_head_dim", key) != key)
    refuse(
        fmt::format("\"qk_head_dim\" is {}, which the heads' parts, {}, "
                    "contradict",
                    text["qk_head_dim"].dump(), key));
  c.index = index_shape(text);
  c.hyper = hyper_options(text, f.hidden, f.norm_eps);
  c.activation = {Activation::silu,
                  float(number_setting(text, "swiglu_limit", 0.0))};
  c.moe = moe_options(text, f.hidden, c.activation);
  return c;
}

struct Layer {
  kernels::HyperWeights attention_site, mlp_site;
  mx::array attention_norm, mlp_norm;  // [hidden]
  std::variant<Kda, SparseLatentAttention> attention;
  std::variant<GatedMlp, Moe> mlp;
};

std::variant<Kda, SparseLatentAttention> load_attention(
    const Checkpoint& checkpoint, const Config& c, int index,
    const std::string& module) {
  const DecoderConfig& f = c.frame;
  if (c.recurrent[index])
    return load_kda(checkpoint, module, c.kda, f.hidden, f.norm_eps);
  return load_sparse_latent_attention(checkpoint, module, c.latent, c.index,
                                      f.hidden, f.norm_eps);
}

std::variant<GatedMlp, Moe> load_mlp(const Checkpoint& checkpoint,
                                     const Config& c, int index,
                                     const std::string& module) {
  if (c.sparse[index]) return load_moe(checkpoint, module, c.moe);
  return load_gated_mlp(checkpoint, module, c.frame.hidden,
                        c.frame.intermediate, c.activation);
}

Layer load_layer(const Checkpoint& checkpoint, const Config& c, int index,
                 const std::string& layer) {
  const auto norm = [&](const char* part) {
    return load_vector(checkpoint, layer + part, c.frame.hidden);
  };
  return {
      .attention_site = load_hyper(checkpoint, layer, "attn", c.hyper),
      .mlp_site = load_hyper(checkpoint, layer, "ffn", c.hyper),
      .attention_norm = norm(".input_layernorm.weight"),
      .mlp_norm = norm(".post_attention_layernorm.weight"),
      .attention = load_attention(checkpoint, c, index, layer + ".self_attn"),
      .mlp = load_mlp(checkpoint, c, index, layer + ".mlp")};
}

mx::array attend(const mx::array& x, const Layer& layer, const LayerStep& step,
                 int index) {
  if (const auto* recurrent = std::get_if<Kda>(&layer.attention))
    return kda(x, *recurrent, step, index);
  return sparse_latent_attention(
      x, std::get<SparseLatentAttention>(layer.attention), step, index);
}

mx::array feed_forward(const mx::array& x, const Layer& layer) {
  if (const auto* experts = std::get_if<Moe>(&layer.mlp))
    return moe(x, *experts);
  return gated_mlp(x, std::get<GatedMlp>(layer.mlp));
}

class Glm5Next : public Model {
 public:
  Glm5Next(const Checkpoint& checkpoint, mx::Dtype dtype)
      : config_(read_config(checkpoint.config())),
        dtype_(dtype),
        names_(decoder_names(checkpoint)),
        ends_(load_decoder_ends(checkpoint, config_.frame, names_)) {
    // Layers past the last are for predicting several tokens at once.
    for (int i = 0; i < config_.frame.layers; ++i)
      layers_.push_back(load_layer(checkpoint, config_, i, names_.layer(i)));
  }

  ModelShape shape() const override {
    const DecoderConfig& c = config_.frame;
    return {c.vocabulary, c.context, c.layers};
  }

  StateLayout state_layout() const override {
    StateLayout layout;
    for (const bool recurrent : config_.recurrent)
      layout.push_back(recurrent ? kda_state(config_.kda, dtype_)
                                 : sparse_latent_state(config_.latent,
                                                       config_.index, dtype_));
    return layout;
  }

  mx::array forward(const StepInput& in,
                    const BlockPools& pools) const override {
    const LayerStep step{.pools = pools, .batch = in.batch, .rope = {}};
    const float eps = config_.frame.norm_eps;
    mx::array streams = hyper_streams(
        embed(ends_.embedding, in.token_ids, dtype_), config_.hyper.streams);
    for (int i = 0; i < config_.frame.layers; ++i) {
      const Layer& layer = layers_[i];
      const auto a = kernels::hyper_in(streams, layer.attention_site);
      streams = kernels::hyper_out(
          streams,
          attend(kernels::rms_norm(a.u, layer.attention_norm, eps), layer, step,
                 i),
          a.mix);
      const auto m = kernels::hyper_in(streams, layer.mlp_site);
      streams = kernels::hyper_out(
          streams,
          feed_forward(kernels::rms_norm(m.u, layer.mlp_norm, eps), layer),
          m.mix);
    }
    return decoder_logits(kernels::hyper_mean(streams, config_.hyper.streams),
                          in.logits_rows, ends_, eps);
  }

 private:
  const Config config_;
  const mx::Dtype dtype_;
  const DecoderNames names_;
  const DecoderEnds ends_;
  std::vector<Layer> layers_;
};

REGISTER_MODEL("glm5_next", make<Glm5Next>);

}  // namespace
}  // namespace reprise
