#include "layers/decoder.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include <stdexcept>

#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

GroupedHeads heads_of(const json& config, int hidden) {
  GroupedHeads shape;
  shape.heads = positive_setting(config, "num_attention_heads");
  shape.kv_heads = positive_setting(config, "num_key_value_heads", shape.heads);
  shape.head_dim = positive_setting(
      config, "head_dim", hidden >= shape.heads ? hidden / shape.heads : 1);
  if (shape.heads % shape.kv_heads != 0)
    throw std::runtime_error(
        fmt::format("{} attention heads cannot share {} key-value heads",
                    shape.heads, shape.kv_heads));
  if (shape.head_dim % 2 != 0)
    throw std::runtime_error(
        fmt::format("a head of {} dimensions cannot rotate", shape.head_dim));
  return shape;
}

void require_full_attention(const json& config) {
  const auto types = config.find("layer_types");
  if (types == config.end() || !types->is_array()) return;
  for (const json& type : *types)
    word_setting({{"layer_types", type}}, "layer_types", {"full_attention"});
}

}  // namespace

DecoderConfig decoder_config(const json& config) {
  word_setting(config, "hidden_act", {"silu", "swish"});  // two names of one
  require_full_attention(config);
  require_full_rotation(config);
  DecoderConfig result;
  result.vocabulary = positive_setting(config, "vocab_size");
  result.hidden = positive_setting(config, "hidden_size");
  result.intermediate = positive_setting(config, "intermediate_size");
  result.layers = positive_setting(config, "num_hidden_layers");
  result.attention = heads_of(config, result.hidden);
  result.context = positive_setting(config, "max_position_embeddings", 2048);
  result.norm_eps = float(number_setting(config, "rms_norm_eps", 1e-6));
  result.tied = flag_setting(config, "tie_word_embeddings", false);
  return result;
}

std::string layer_name(int layer, const char* part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

DecoderEnds load_decoder_ends(const Checkpoint& checkpoint,
                              const DecoderConfig& config) {
  const auto load = [&](const char* module) {
    return load_linear(checkpoint, module, config.vocabulary, config.hidden);
  };
  const Linear embedding = load("model.embed_tokens");
  return {.embedding = embedding,
          .norm = load_vector(checkpoint, "model.norm.weight", config.hidden),
          .head = config.tied ? embedding : load("lm_head")};
}

mx::array decoder_logits(const mx::array& x, const mx::array& rows,
                         const DecoderEnds& ends, float norm_eps) {
  const auto wanted = mx::take(x, rows, 0);
  const auto h = kernels::rms_norm(wanted, ends.norm, norm_eps);
  return mx::astype(linear(h, ends.head), mx::float32);
}

}  // namespace reprise
