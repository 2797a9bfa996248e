// The fixtures once more, as the GGUF files that llama.cpp's converter would
// make of them: names, metadata, order of rows. The same weights, so the same
// reference outputs.
#include <gtest/gtest.h>
#include <mlx/array.h>
#include <mlx/io.h>
#include <mlx/ops.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "golden.h"
#include "layers/rope.h"
#include "weights/testing_files.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;
using testing::GgufWriter;
using testing::raw;

// gguf-py's tensor_mapping.py; "{}" is the layer.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"post_attention_layernorm", "ffn_norm"},
    {"input_layernorm", "attn_norm"},
    {"model.layers", "blk"},
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"}};

std::string gguf_name(std::string name) {
  for (const auto& [ours, theirs] : kNames)
    if (const auto at = name.find(ours); at != std::string::npos)
      name.replace(at, std::string(ours).size(), theirs);
  return name;
}

// Architectures of which the converter interleaves the rotary halves.
bool interleaves(const std::string& arch) {
  return std::set<std::string>{"llama"}.contains(arch);
}

mx::array interleaved(const mx::array& rows, int heads) {
  const int half = rows.shape(0) / heads / 2;
  const auto split = mx::reshape(rows, {heads, 2, half, rows.shape(1)});
  return mx::reshape(mx::transpose(split, {0, 2, 1, 3}), rows.shape());
}

void add_tensor(GgufWriter& writer, const std::string& name, mx::array a) {
  a = mx::contiguous(a);
  a.eval();
  constexpr std::uint32_t kF32 = 0, kBf16 = 30;
  writer.tensors.push_back({name,
                            {a.shape().rbegin(), a.shape().rend()},
                            a.dtype() == mx::float32 ? kF32 : kBf16,
                            writer.data.size()});
  writer.data.append(a.data<char>(), a.nbytes());
  writer.data.resize((writer.data.size() + 31) / 32 * 32);
}

void add_metadata(GgufWriter& writer, const json& config) {
  const std::string arch = config.at("model_type");
  writer.add_string("general.architecture", arch);
  const std::pair<const char*, const char*> integers[] = {
      {"block_count", "num_hidden_layers"},
      {"embedding_length", "hidden_size"},
      {"feed_forward_length", "intermediate_size"},
      {"context_length", "max_position_embeddings"},
      {"attention.head_count", "num_attention_heads"},
      {"attention.head_count_kv", "num_key_value_heads"},
      {"attention.key_length", "head_dim"},
      {"attention.value_length", "head_dim"},
      {"rope.dimension_count", "head_dim"}};
  for (const auto& [key, name] : integers)
    writer.add_uint32(arch + "." + key, config.at(name));
  writer.add_float(arch + ".attention.layer_norm_rms_epsilon",
                   config.at("rms_norm_eps"));
  writer.add_float(arch + ".rope.freq_base", config.at("rope_theta"));
}

// What the converter stores of a scaled rotation: divisors.
void add_rope_divisors(GgufWriter& writer, const json& config) {
  const int head_dim = config.at("head_dim");
  auto divisors =
      rope_frequencies({{"rope_theta", config.at("rope_theta")}}, head_dim);
  const auto scaled = rope_frequencies(config, head_dim);
  for (std::size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  add_tensor(writer, "rope_freqs.weight",
             mx::array(divisors.begin(), {head_dim / 2}));
}

std::string as_gguf(const FixtureModel& model) {
  const json config = read_fixture_json(model.path + "/config.json");
  GgufWriter writer;
  add_metadata(writer, config);
  for (auto& [name, tensor] :
       mx::load_safetensors(model.path + "/model.safetensors").first) {
    const bool q = name.ends_with("q_proj.weight");
    const bool k = name.ends_with("k_proj.weight");
    mx::array values = tensor;
    if (interleaves(model.model_type) && (q || k))
      values = interleaved(
          values, config.at(q ? "num_attention_heads" : "num_key_value_heads"));
    add_tensor(writer, gguf_name(name), values);
  }
  if (config.contains("rope_scaling")) add_rope_divisors(writer, config);
  return writer.bytes();
}

std::vector<FixtureModel> plain_fixtures() {
  auto models = fixture_models();
  std::erase_if(models, [](const auto& m) { return !m.quantized.empty(); });
  return models;
}

class GgufGolden : public ::testing::TestWithParam<FixtureModel> {};

TEST_P(GgufGolden, PromptLogits) {
  const testing::TempFolder folder;
  const auto file = folder.write("model.gguf", as_gguf(GetParam()));
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(file);
  EXPECT_LE(prompt_distance(golden, *runner), golden.tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, ::testing::ValuesIn(plain_fixtures()),
                         [](const auto& info) { return info.param.arch; });

}  // namespace
}  // namespace reprise
