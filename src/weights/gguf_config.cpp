#include "weights/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "weights/json_text.h"

namespace reprise {
namespace {

using nlohmann::json;

constexpr std::size_t kArchitectureBytesMax = 64;

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};

constexpr NamePair kTopNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

template <std::size_t N>
std::string_view translate(const NamePair (&table)[N], std::string_view name) {
  const auto* found =
      std::find_if(std::begin(table), std::end(table),
                   [&](const NamePair& pair) { return pair.gguf == name; });
  return found == std::end(table) ? std::string_view() : found->hugging_face;
}

// Metadata keys behind "<architecture>.".
constexpr NamePair kIntegerKeys[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"vocab_size", "vocab_size"},
};

constexpr NamePair kNumberKeys[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base", "rope_theta"},
};

const GgufTensor* tensor_named(const GgufFile& file, std::string_view name) {
  const auto& all = file.tensors();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void copy_keys(const GgufFile& file, const std::string& prefix, json& config) {
  for (const auto& [key, name] : kIntegerKeys) {
    const std::string full = prefix + std::string(key);
    if (const auto value = file.integer(full))
      config[name] = *value;
    else if (const auto list = file.integers(full))  // differs by layer
      config[name] = *list;
  }
  for (const auto& [key, name] : kNumberKeys)
    if (const auto value = file.number(prefix + std::string(key)))
      config[name] = *value;
}

void add_vocabulary(const GgufFile& file, json& config) {
  const GgufTensor* embedding = tensor_named(file, "token_embd.weight");
  if (!config.contains("vocab_size") && embedding)
    config["vocab_size"] = embedding->shape.front();
  config["tie_word_embeddings"] = !tensor_named(file, "output.weight");
  if (const auto bos = file.integer("tokenizer.ggml.bos_token_id"))
    config["bos_token_id"] = *bos;
  const auto eos = file.integer("tokenizer.ggml.eos_token_id");
  const auto eot = file.integer("tokenizer.ggml.eot_token_id");
  if (eos && eot && *eos != *eot)
    config["eos_token_id"] = json::array({*eos, *eot});
  else if (eos)
    config["eos_token_id"] = *eos;
}

void add_rope(const GgufFile& file, const std::string& prefix, json& config) {
  config["rope_interleaved"] = true;
  const auto* type = file.string(prefix + "rope.scaling.type");
  const auto factor = file.number(prefix + "rope.scaling.factor");
  if (type && *type != "none" && factor) {
    json& scaling = config["rope_scaling"];
    scaling = {{"rope_type", *type}, {"factor", *factor}};
    if (const auto length =
            file.integer(prefix + "rope.scaling.original_context_length"))
      scaling["original_max_position_embeddings"] = *length;
  }
  const auto rotary = file.integer(prefix + "rope.dimension_count");
  const auto width = file.integer(prefix + "embedding_length");
  const auto heads = file.integer(prefix + "attention.head_count");
  auto head = file.integer(prefix + "attention.key_length");
  if (!head && width && heads && *heads > 0) head = *width / *heads;
  if (rotary && head && *head > 0 && *rotary != *head)
    config["partial_rotary_factor"] =
        static_cast<double>(*rotary) / static_cast<double>(*head);
}

}  // namespace

std::string hugging_face_name(std::string_view gguf_name) {
  const std::size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return std::string(gguf_name);
  std::string_view module = gguf_name.substr(0, dot);
  const std::string_view suffix = gguf_name.substr(dot);  // ".weight"
  if (const auto name = translate(kTopNames, module); !name.empty())
    return fmt::format("{}{}", name, suffix);

  constexpr std::string_view kBlock = "blk.";
  if (!module.starts_with(kBlock)) return std::string(gguf_name);
  module.remove_prefix(kBlock.size());
  const std::string_view layer = module.substr(0, module.find('.'));
  if (layer.size() == module.size()) return std::string(gguf_name);
  const auto name = translate(kLayerNames, module.substr(layer.size() + 1));
  if (name.empty()) return std::string(gguf_name);
  return fmt::format("model.layers.{}.{}{}", layer, name, suffix);
}

Result<json> gguf_config(const GgufFile& file) {
  const auto* architecture = file.string("general.architecture");
  if (!architecture || architecture->empty())
    return Error{
        ErrorKind::corrupt,
        fmt::format(
            "'{}' has no metadata general.architecture, so what model it holds "
            "is not known",
            file.path())};
  // It becomes part of messages, metrics and JSON.
  const bool plain =
      std::all_of(architecture->begin(), architecture->end(),
                  [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || architecture->size() > kArchitectureBytesMax)
    return Error{
        ErrorKind::corrupt,
        fmt::format(
            "'{}' has a general.architecture of {} bytes that is not a plain "
            "ASCII word of up to {}",
            file.path(), architecture->size(), kArchitectureBytesMax)};
  if (const auto parts = file.integer("split.count").value_or(1); parts > 1)
    return Error{
        ErrorKind::unsupported,
        fmt::format("'{}' is one of {} parts; join them with llama.cpp's "
                    "llama-gguf-split --merge first",
                    file.path(), parts)};
  const std::string prefix = *architecture + ".";
  json config = {{"model_type", *architecture}};
  copy_keys(file, prefix, config);
  if (!config.contains("num_key_value_heads") &&
      config.contains("num_attention_heads"))
    config["num_key_value_heads"] = config["num_attention_heads"];
  add_vocabulary(file, config);
  add_rope(file, prefix, config);
  return json_result(std::move(config));
}

}  // namespace reprise
