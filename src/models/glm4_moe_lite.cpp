// GLM-4.7-Flash: latent attention, and after the first layers a mixture of
// experts beside one MLP for all tokens. Reference: transformers,
// modeling_glm4_moe_lite.py.
#include <mlx/array.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "layers/config.h"
#include "layers/decoder.h"
#include "layers/latent_attention.h"
#include "layers/mlp.h"
#include "layers/moe.h"
#include "layers/rope.h"
#include "models/registry.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

struct Config {
  DecoderConfig frame;
  LatentHeads heads;
  bool rope_interleaved = true;
  std::vector<bool> sparse;  // by layer
  MoeOptions moe;
};

Config read_config(const json& config) {
  word_setting(config, "hidden_act", {"silu"});
  require_full_rotation(config);
  Config c;
  c.frame = decoder_frame(config);
  c.heads = latent_heads(config);
  c.rope_interleaved = flag_setting(config, "rope_interleave", true);
  c.sparse = sparse_layers(config, c.frame.layers);
  c.moe = moe_options(config, c.frame.hidden);
  return c;
}

struct Layer {
  mx::array attention_norm, mlp_norm;  // [hidden]
  LatentAttention attention;
  std::optional<GatedMlp> dense;  // one of the two
  std::optional<Moe> sparse;
};

Layer load_layer(const Checkpoint& checkpoint, const Config& c, int index) {
  const auto norm = [&](const char* part) {
    return load_vector(checkpoint, layer_name(index, part), c.frame.hidden);
  };
  const std::string mlp = layer_name(index, "mlp");
  Layer layer{.attention_norm = norm("input_layernorm.weight"),
              .mlp_norm = norm("post_attention_layernorm.weight"),
              .attention = load_latent_attention(
                  checkpoint, layer_name(index, "self_attn"), c.heads,
                  c.frame.hidden, c.frame.norm_eps),
              .dense = {},
              .sparse = {}};
  if (c.sparse[index])
    layer.sparse = load_moe(checkpoint, mlp, c.moe);
  else
    layer.dense =
        load_gated_mlp(checkpoint, mlp, c.frame.hidden, c.frame.intermediate);
  return layer;
}

class Glm4MoeLite : public Model {
 public:
  Glm4MoeLite(const Checkpoint& checkpoint, mx::Dtype dtype)
      : config_(read_config(checkpoint.config())),
        dtype_(dtype),
        ends_(load_decoder_ends(checkpoint, config_.frame)),
        frequencies_(frequency_array(
            rope_frequencies(checkpoint.config(), config_.heads.rope))) {
    // Layers past the last are for predicting several tokens at once.
    for (int i = 0; i < config_.frame.layers; ++i)
      layers_.push_back(load_layer(checkpoint, config_, i));
  }

  ModelShape shape() const override {
    const DecoderConfig& c = config_.frame;
    return {c.vocabulary, c.context, c.layers};
  }

  StateLayout state_layout() const override {
    return StateLayout(layers_.size(), latent_state(config_.heads, dtype_));
  }

  mx::array forward(const StepInput& in,
                    const BlockPools& pools) const override {
    const LayerStep step{.pools = pools,
                         .batch = in.batch,
                         .rope = kernels::rope_table(*in.batch, frequencies_),
                         .rope_interleaved = config_.rope_interleaved};
    const float eps = config_.frame.norm_eps;
    mx::array x = embed(ends_.embedding, in.token_ids, dtype_);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const auto a = kernels::rms_norm(x, layer.attention_norm, eps);
      x = kernels::add(
          x, latent_attention(a, layer.attention, step, static_cast<int>(i)));
      const auto m = kernels::rms_norm(x, layer.mlp_norm, eps);
      x = kernels::add(
          x, layer.sparse ? moe(m, *layer.sparse) : gated_mlp(m, *layer.dense));
    }
    return decoder_logits(x, in.logits_rows, ends_, eps);
  }

 private:
  const Config config_;
  const mx::Dtype dtype_;
  const DecoderEnds ends_;
  const mx::array frequencies_;  // float32 [rope / 2]
  std::vector<Layer> layers_;
};

REGISTER_MODEL("glm4_moe_lite", make<Glm4MoeLite>);

}  // namespace
}  // namespace reprise
