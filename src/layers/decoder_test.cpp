#include "layers/decoder.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/random.h>

#include <stdexcept>
#include <string>

#include "layers/dense_decoder.h"
#include "layers/grouped_attention.h"
#include "layers/mlp.h"
#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

json smallest() {
  return {{"vocab_size", 32},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4}};
}

TEST(DecoderConfig, FillsInWhatIsNotSaid) {
  const DecoderConfig c = decoder_config(smallest());
  EXPECT_EQ(c.attention.kv_heads, 4);
  EXPECT_EQ(c.attention.head_dim, 4);
  EXPECT_EQ(c.context, 2048);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-6f);
  EXPECT_FALSE(c.tied);
}

TEST(DecoderConfig, HeadDimIsItsOwn) {
  json config = smallest();
  config["head_dim"] = 64;
  config["num_key_value_heads"] = 2;
  const DecoderConfig c = decoder_config(config);
  EXPECT_EQ(c.attention.q_dim(), 256);
  EXPECT_EQ(c.attention.kv_dim(), 128);
}

TEST(DecoderConfig, WhatIsNotServedIsNamed) {
  const std::pair<json, const char*> cases[] = {
      {{{"hidden_act", "gelu"}}, "silu or swish"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {{{"rope_parameters", {{"partial_rotary_factor", 0.25}}}}, "0.25"},
      {{{"layer_types", {"full_attention", "sliding_attention"}}},
       "\"layer_types\" is \"sliding_attention\"; it must be full_attention"},
      {{{"num_key_value_heads", 3}}, "4 attention heads cannot share 3"},
      {{{"head_dim", 3}}, "a head of 3"},
      {{{"num_key_value_heads", {4, 2}}}, "num_key_value_heads"},
  };
  for (const auto& [change, text] : cases) {
    json config = smallest();
    config.update(change);
    try {
      decoder_config(config);
      FAIL() << change;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos)
          << e.what();
    }
  }
}

TEST(GatedMlp, IsDownOfSiluGateTimesUp) {
  const mx::array gate = mx::random::normal({24, 16});
  const mx::array up = mx::random::normal({24, 16});
  const mx::array down = mx::random::normal({16, 24});
  const mx::array x = mx::random::normal({3, 16});
  const mx::array g = mx::matmul(x, mx::transpose(gate));
  const mx::array want =
      mx::matmul(g * mx::sigmoid(g) * mx::matmul(x, mx::transpose(up)),
                 mx::transpose(down));
  const GatedMlp mlp{{gate, {}}, {up, {}}, {down, {}}};
  EXPECT_TRUE(mx::allclose(gated_mlp(x, mlp), want, 1e-4, 1e-4).item<bool>());
}

TEST(KeyValueState, HasOneRowATokenOfEach) {
  const LayerState state =
      key_value_state({.heads = 4, .kv_heads = 2, .head_dim = 8}, mx::bfloat16);
  ASSERT_EQ(state.size(), 2u);
  for (const StateFamily& family : state) {
    EXPECT_TRUE(std::holds_alternative<PerToken>(family.growth));
    EXPECT_EQ(family.row_bytes(), 32u);
  }
}

TEST(DecoderNames, AreFoundByTheEmbedding) {
  const std::pair<const char*, const char*> places[] = {
      {"model", "lm_head"},
      {"model.language_model", "lm_head"},
      {"language_model.model", "language_model.lm_head"}};
  for (const auto& [body, head] : places) {
    const auto checkpoint = testing::checkpoint_of(
        {{std::string(body) + ".embed_tokens.weight", mx::zeros({32, 16})},
         {std::string(body) + ".norm.weight", mx::zeros({16})},
         {std::string(head) + ".weight", mx::ones({32, 16})}});
    const DecoderNames names = decoder_names(*checkpoint);
    EXPECT_EQ(names.layer(3), std::string(body) + ".layers.3");
    const auto ends =
        load_decoder_ends(*checkpoint, decoder_frame(smallest()), names);
    EXPECT_TRUE(checkpoint->unread().empty());
    EXPECT_EQ(mx::min(std::get<mx::array>(ends.head.weight)).item<float>(), 1);
  }
  const auto none = testing::checkpoint_of({{"x", mx::zeros({1})}});
  EXPECT_EQ(decoder_names(*none).body, "model");
}

TEST(GatedMlp, MayHaveGeluInIt) {
  const mx::array gate = mx::array({-1.0f, 0.5f}, {1, 2});
  const mx::array up = mx::array({2.0f, 3.0f}, {1, 2});
  auto y = gated(gate, up, Activation::gelu);
  y.eval();
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), computed elsewhere.
  EXPECT_NEAR(y.data<float>()[0], -0.158808f * 2, 1e-5);
  EXPECT_NEAR(y.data<float>()[1], 0.345714f * 3, 1e-5);
}

}  // namespace
}  // namespace reprise
