#include "layers/decoder.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/random.h>

#include <stdexcept>
#include <string>

#include "layers/dense_decoder.h"
#include "layers/grouped_attention.h"
#include "layers/mlp.h"

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

}  // namespace
}  // namespace reprise
