// Gemma 4's text decoder, dense or with experts: layers that see a window
// between layers that see everything, each kind with heads of its own; the
// last layers may read the keys and values of earlier ones; a second embedding
// may feed every layer. Reference: transformers, modeling_gemma4.py.
#include <fmt/format.h>
#include <mlx/ops.h>

#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "layers/config.h"
#include "layers/decoder.h"
#include "layers/expert_branch.h"
#include "layers/layer_inputs.h"
#include "layers/mixed_attention.h"
#include "layers/mlp.h"
#include "layers/rope.h"
#include "models/registry.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

struct Config {
  DecoderConfig frame;
  std::vector<std::string> types;  // by layer
  std::vector<int> sources;        // by layer: whose keys and values it reads
  bool wide_readers = false;       // MLPs of layers without keys: twice as wide
  float softcap = 0;
  int extra_width = 0;  // of the second embedding, for each layer
  std::optional<ExpertBranchOptions> experts;
};

[[noreturn]] void refuse(const char* key, const std::string& what) {
  throw std::runtime_error(
      fmt::format("the configuration's \"{}\" {}", key, what));
}

void refuse_what_is_not_served(const json& text) {
  word_setting(text, "hidden_activation", {"gelu_pytorch_tanh"});
  // Among image tokens only, which are not served.
  word_setting(text, "use_bidirectional_attention", {"vision"});
  if (text.contains("per_layer_config"))
    refuse("per_layer_config",
           "is there; heads of every layer's own are not "
           "served for this model type");
}

Config read_config(const json& config) {
  const json& text = text_settings(config);
  refuse_what_is_not_served(text);
  Config c;
  c.frame = decoder_frame(text);
  constexpr const char* kTied = "tie_word_embeddings";
  c.frame.tied = flag_setting(text, kTied, flag_setting(config, kTied, true));
  c.types = word_list_setting(text, "layer_types",
                              {"full_attention", "sliding_attention"},
                              c.frame.layers);
  if (c.types.empty() || c.types.back() != "full_attention")
    refuse("layer_types",
           "must be a list that ends with full_attention (GGUF "
           "files, which have none, are not served for this "
           "model type)");
  c.sources =
      key_sources(c.types, count_setting(text, "num_kv_shared_layers", 0));
  c.wide_readers = flag_setting(text, "use_double_wide_mlp", false);
  c.softcap = float(number_setting(text, "final_logit_softcapping", 0.0));
  c.extra_width = count_setting(text, "hidden_size_per_layer_input", 0);
  if (!flag_setting(text, "enable_moe_block", false)) return c;
  c.experts = ExpertBranchOptions{
      .experts = {.experts = positive_setting(text, "num_experts"),
                  .hidden = c.frame.hidden,
                  .intermediate =
                      positive_setting(text, "moe_intermediate_size"),
                  .activation = Activation::gelu},
      .top_k = positive_setting(text, "top_k_experts"),
      .norm_eps = c.frame.norm_eps};
  return c;
}

AttentionKind read_kind(const json& text, const std::string& type,
                        float norm_eps) {
  const bool sliding = type == "sliding_attention";
  const bool keys_are_values =
      !sliding && flag_setting(text, "attention_k_eq_v", false);
  GroupedHeads shape;
  shape.heads = positive_setting(text, "num_attention_heads");
  shape.kv_heads = positive_setting(text, "num_key_value_heads");
  shape.head_dim = positive_setting(text, "head_dim");
  if (keys_are_values)
    shape.kv_heads =
        positive_setting(text, "num_global_key_value_heads", shape.kv_heads);
  if (!sliding)
    shape.head_dim = positive_setting(text, "global_head_dim", shape.head_dim);
  require_heads(shape);
  return {.shape = shape,
          .window = sliding ? positive_setting(text, "sliding_window") : 0,
          .keys_are_values = keys_are_values,
          .frequencies =
              frequency_array(rope_frequencies_of(text, type, shape.head_dim)),
          .norm_eps = norm_eps};
}

struct Layer {
  mx::array in_norm, attention_norm, mlp_in_norm, mlp_norm;  // [hidden]
  MixedAttention attention;
  GatedMlp mlp;
  std::optional<ExpertBranch> experts;
  std::optional<LayerInput> extra;
  float scale = 1;
};

float load_scalar(const Checkpoint& checkpoint, const std::string& name) {
  auto value = mx::astype(load_vector(checkpoint, name, 1), mx::float32);
  return value.item<float>();
}

class Gemma4 : public Model {
 public:
  Gemma4(const Checkpoint& checkpoint, mx::Dtype dtype)
      : config_(read_config(checkpoint.config())),
        dtype_(dtype),
        names_(decoder_names(checkpoint)),
        ends_(load_decoder_ends(checkpoint, config_.frame, names_)) {
    const json& text = text_settings(checkpoint.config());
    for (const std::string& type : config_.types)
      if (!kinds_.contains(type))
        kinds_.emplace(type, read_kind(text, type, config_.frame.norm_eps));
    if (config_.extra_width > 0)
      extra_ = load_layer_embedding(checkpoint, names_.body, config_.frame,
                                    config_.extra_width);
    for (int i = 0; i < config_.frame.layers; ++i)
      layers_.push_back(load_layer(checkpoint, i));
  }

  ModelShape shape() const override {
    const DecoderConfig& c = config_.frame;
    return {c.vocabulary, c.context, c.layers};
  }

  StateLayout state_layout() const override {
    StateLayout layout;
    for (int i = 0; i < config_.frame.layers; ++i)
      layout.push_back(reads_own(i) ? mixed_state(kind(i), dtype_)
                                    : LayerState());
    return layout;
  }

  mx::array forward(const StepInput& in,
                    const BlockPools& pools) const override {
    std::map<std::string, LayerStep> steps;  // by kind
    for (const auto& [type, kind] : kinds_)
      steps.emplace(type, LayerStep{.pools = pools,
                                    .batch = in.batch,
                                    .rope = kernels::rope_table(
                                        *in.batch, kind.frequencies)});
    const float root = std::sqrt(float(config_.frame.hidden));
    mx::array x =
        kernels::scale(embed(ends_.embedding, in.token_ids, dtype_), root);
    std::optional<mx::array> extra;
    if (extra_) extra = layer_inputs(in.token_ids, x, *extra_, eps());
    std::vector<std::optional<KeysAndValues>> states(layers_.size());
    for (int i = 0; i < config_.frame.layers; ++i) {
      const LayerStep& step = steps.at(config_.types[i]);
      x = kernels::add(x, attend(x, i, step, states));
      x = kernels::add(x, feed_forward(x, layers_[i]));
      if (extra)
        x = kernels::add(x,
                         layer_input(x, *extra, i, *layers_[i].extra, eps()));
      x = kernels::scale(x, layers_[i].scale);
    }
    const auto logits = decoder_logits(x, in.logits_rows, ends_, eps());
    return config_.softcap > 0 ? kernels::softcap(logits, config_.softcap)
                               : logits;
  }

 private:
  float eps() const { return config_.frame.norm_eps; }
  bool reads_own(int layer) const { return config_.sources[layer] == layer; }
  const AttentionKind& kind(int layer) const {
    return kinds_.at(config_.types[layer]);
  }

  Layer load_layer(const Checkpoint& checkpoint, int i) const {
    const int hidden = config_.frame.hidden;
    const std::string prefix = names_.layer(i);
    const auto norm = [&](const char* part) {
      return load_vector(checkpoint, prefix + part, hidden);
    };
    const int wide = config_.wide_readers && !reads_own(i) ? 2 : 1;
    Layer layer{
        .in_norm = norm(".input_layernorm.weight"),
        .attention_norm = norm(".post_attention_layernorm.weight"),
        .mlp_in_norm = norm(".pre_feedforward_layernorm.weight"),
        .mlp_norm = norm(".post_feedforward_layernorm.weight"),
        .attention = load_mixed_attention(checkpoint, prefix + ".self_attn",
                                          kind(i), hidden, reads_own(i)),
        .mlp =
            load_gated_mlp(checkpoint, prefix + ".mlp", hidden,
                           wide * config_.frame.intermediate, Activation::gelu),
        .experts = {},
        .extra = {},
        .scale = load_scalar(checkpoint, prefix + ".layer_scalar")};
    if (config_.experts)
      layer.experts = load_expert_branch(checkpoint, prefix, *config_.experts);
    if (config_.extra_width > 0)
      layer.extra =
          load_layer_input(checkpoint, prefix, hidden, config_.extra_width);
    return layer;
  }

  mx::array attend(const mx::array& x, int i, const LayerStep& step,
                   std::vector<std::optional<KeysAndValues>>& states) const {
    const Layer& layer = layers_[i];
    const auto h = kernels::rms_norm(x, layer.in_norm, eps());
    if (reads_own(i))
      states[i] = write_keys_and_values(h, layer.attention, kind(i), step, i);
    const auto y = mixed_attention(h, layer.attention, kind(i), step,
                                   *states[config_.sources[i]]);
    return kernels::rms_norm(y, layer.attention_norm, eps());
  }

  mx::array feed_forward(const mx::array& x, const Layer& layer) const {
    const auto h = kernels::rms_norm(x, layer.mlp_in_norm, eps());
    auto y = gated_mlp(h, layer.mlp);
    if (layer.experts) y = with_experts(y, x, *layer.experts);
    return kernels::rms_norm(y, layer.mlp_norm, eps());
  }

  const Config config_;
  const mx::Dtype dtype_;
  const DecoderNames names_;
  const DecoderEnds ends_;
  std::map<std::string, AttentionKind> kinds_;  // by layer type
  std::optional<LayerEmbedding> extra_;
  std::vector<Layer> layers_;
};

REGISTER_MODEL("gemma4", make<Gemma4>);

}  // namespace
}  // namespace reprise
