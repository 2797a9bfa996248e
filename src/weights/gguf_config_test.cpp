#include "weights/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using nlohmann::json;
using testing::GgufWriter;
using testing::raw;
using testing::TempFolder;

GgufWriter tiny_model() {
  GgufWriter writer;
  writer.add_string("general.architecture", "tiny")
      .add_uint32("tiny.block_count", 2)
      .add_uint32("tiny.embedding_length", 64)
      .add_uint32("tiny.feed_forward_length", 96)
      .add_uint32("tiny.context_length", 4096)
      .add_uint32("tiny.attention.head_count", 4)
      .add_float("tiny.attention.layer_norm_rms_epsilon", 1e-5f)
      .add_float("tiny.rope.freq_base", 10000.0f)
      .add_uint32("tokenizer.ggml.bos_token_id", 1)
      .add_uint32("tokenizer.ggml.eos_token_id", 2);
  writer.tensors = {{"token_embd.weight", {64, 10}, 0, 0}};
  writer.data = std::string(64 * 10 * 4, '\0');
  return writer;
}

Result<json> config_of(const GgufWriter& writer) {
  const TempFolder folder;
  const auto file = GgufFile::open(folder.write("x.gguf", writer.bytes()));
  if (!file) return file.error();
  return gguf_config(*file);
}

TEST(GgufConfig, HasHuggingFacesKeys) {
  const auto config = config_of(tiny_model());
  ASSERT_TRUE(config) << config.error().message;
  const json expected = {{"model_type", "tiny"},
                         {"num_hidden_layers", 2},
                         {"hidden_size", 64},
                         {"intermediate_size", 96},
                         {"max_position_embeddings", 4096},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 4},
                         {"rms_norm_eps", double{1e-5f}},
                         {"rope_theta", 10000.0},
                         {"vocab_size", 10},
                         {"tie_word_embeddings", true},
                         {"bos_token_id", 1},
                         {"eos_token_id", 2},
                         {"rope_interleaved", true}};
  EXPECT_EQ(*config, expected) << config->dump(1);
}

TEST(GgufConfig, OptionalKeys) {
  GgufWriter writer = tiny_model();
  writer.add_uint32("tiny.attention.head_count_kv", 2)
      .add_uint32("tiny.attention.key_length", 32)
      .add_uint32("tiny.rope.dimension_count", 16)
      .add_uint32("tiny.vocab_size", 9)
      .add_string("tiny.rope.scaling.type", "linear")
      .add_float("tiny.rope.scaling.factor", 4.0f)
      .add_uint32("tiny.rope.scaling.original_context_length", 1024)
      .add_uint32("tokenizer.ggml.eot_token_id", 7);
  writer.tensors.push_back({"output.weight", {64, 10}, 0, writer.data.size()});
  writer.data += writer.data;
  const auto config = config_of(writer);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ((*config)["num_key_value_heads"], 2);
  EXPECT_EQ((*config)["head_dim"], 32);
  EXPECT_EQ((*config)["partial_rotary_factor"], 0.5);
  EXPECT_EQ((*config)["vocab_size"], 9);
  EXPECT_EQ((*config)["tie_word_embeddings"], false);
  EXPECT_EQ((*config)["eos_token_id"], json::array({2, 7}));
  const json scaling = {{"rope_type", "linear"},
                        {"factor", 4.0},
                        {"original_max_position_embeddings", 1024}};
  EXPECT_EQ((*config)["rope_scaling"], scaling);
}

TEST(GgufConfig, ValuesThatDifferByLayer) {
  GgufWriter writer = tiny_model();
  writer.add_array("tiny.attention.head_count_kv", 5, 2,
                   raw(std::int32_t{2}) + raw(std::int32_t{1}));
  const auto config = config_of(writer);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ((*config)["num_key_value_heads"], json::array({2, 1}));
}

TEST(GgufConfig, Refuses) {
  GgufWriter nameless;
  nameless.add_uint32("tiny.block_count", 2);
  const auto missing = config_of(nameless);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(missing.error().message,
              ::testing::HasSubstr("general.architecture"));
  for (const char* name : {"two words", "\xff\xfe", "a\nb"}) {
    const auto odd =
        config_of(GgufWriter().add_string("general.architecture", name));
    ASSERT_FALSE(odd) << name;
    EXPECT_EQ(odd.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(odd.error().message, ::testing::HasSubstr("plain ASCII"));
  }
  const auto part =
      config_of(tiny_model().add("split.count", 2, raw(std::uint16_t{3})));
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(part.error().message, ::testing::HasSubstr("one of 3 parts"));
}

TEST(HuggingFaceName, Translates) {
  EXPECT_EQ(hugging_face_name("token_embd.weight"),
            "model.embed_tokens.weight");
  EXPECT_EQ(hugging_face_name("output.weight"), "lm_head.weight");
  EXPECT_EQ(hugging_face_name("output_norm.weight"), "model.norm.weight");
  EXPECT_EQ(hugging_face_name("blk.12.attn_q.bias"),
            "model.layers.12.self_attn.q_proj.bias");
  EXPECT_EQ(hugging_face_name("blk.0.ffn_norm.weight"),
            "model.layers.0.post_attention_layernorm.weight");
}

TEST(HuggingFaceName, LeavesOthersAlone) {
  for (const char* name :
       {"rope_freqs.weight", "blk.0.ssm_a", "blk.0.ssm_d.weight", "blk.0",
        "blk.weight", "blk..weight", "output", "", ".", "blk.", "blk.0.weight"})
    EXPECT_EQ(hugging_face_name(name), name);
}

}  // namespace
}  // namespace reprise
