#include "layers/mixed_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/layer_inputs.h"
#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using testing::checkpoint_of;
using testing::close;
using ::testing::HasSubstr;
using testing::Tensors;
using testing::thrown_by;

TEST(KeySources, AreTheLastOfTheKindBeforeThoseThatShare) {
  const std::vector<std::string> types = {"s", "s", "f", "s", "s", "f"};
  EXPECT_EQ(key_sources(types, 0), (std::vector{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(key_sources(types, 3), (std::vector{0, 1, 2, 1, 1, 2}));
  EXPECT_EQ(key_sources(types, 1), (std::vector{0, 1, 2, 3, 4, 2}));
  for (int shared : {4, 6, 7})
    EXPECT_THAT(thrown_by([&] { key_sources(types, shared); }),
                HasSubstr("num_kv_shared_layers"))
        << shared;
}

AttentionKind kind(int window, bool keys_are_values) {
  return {.shape = {.heads = 4, .kv_heads = 2, .head_dim = 8},
          .window = window,
          .keys_are_values = keys_are_values,
          .frequencies = mx::zeros({4}),
          .norm_eps = 1e-6f};
}

TEST(MixedState, IsOfAWindowWhereTheLayerSeesNoMore) {
  const LayerState narrow = mixed_state(kind(64, false), mx::bfloat16);
  const LayerState wide = mixed_state(kind(0, true), mx::float32);
  ASSERT_EQ(narrow.size(), 2u);
  ASSERT_EQ(wide.size(), 2u);
  for (int i : {0, 1}) {
    EXPECT_EQ(std::get<Window>(narrow[i].growth).width, 64);
    EXPECT_TRUE(std::holds_alternative<PerToken>(wide[i].growth));
    EXPECT_EQ(narrow[i].row_bytes(), 32u);
    EXPECT_EQ(wide[i].row_bytes(), 64u);
  }
}

TEST(MixedAttention, LoadsWhatItsLayerHas) {
  Tensors tensors = {{"a.q_proj.weight", mx::zeros({32, 16})},
                     {"a.o_proj.weight", mx::zeros({16, 32})},
                     {"a.q_norm.weight", mx::zeros({8})},
                     {"a.k_proj.weight", mx::zeros({16, 16})},
                     {"a.k_norm.weight", mx::zeros({8})}};
  const auto checkpoint = checkpoint_of(tensors);
  const auto load = [&](bool keys_are_values, bool own) {
    return load_mixed_attention(*checkpoint, "a", kind(0, keys_are_values), 16,
                                own);
  };
  EXPECT_FALSE(load(false, false).k);
  EXPECT_EQ(checkpoint->unread().size(), 2u);
  EXPECT_TRUE(load(true, true).k);
  EXPECT_FALSE(load(true, true).v);
  EXPECT_THAT(thrown_by([&] { load(false, true); }), HasSubstr("a.v_proj"));
}

TEST(LayerInputs, JoinBothEmbeddings) {
  constexpr int kWidth = 4, kHidden = 16;
  const auto table = mx::random::normal({6, 2 * kWidth});
  const auto project = mx::random::normal({2 * kWidth, kHidden});
  const auto norm = mx::random::normal({kWidth});
  const auto checkpoint =
      checkpoint_of({{"m.embed_tokens_per_layer.weight", table},
                     {"m.per_layer_model_projection.weight", project},
                     {"m.per_layer_projection_norm.weight", norm}});
  const auto embedding = load_layer_embedding(
      *checkpoint, "m", {.vocabulary = 6, .hidden = kHidden, .layers = 2},
      kWidth);
  const auto x = mx::random::normal({3, kHidden});
  const auto ids = mx::array({5, 0, 2});
  auto y = mx::reshape(mx::matmul(x, mx::transpose(project)) * mx::array(0.25f),
                       {3, 2, kWidth});
  y = y / mx::sqrt(mx::mean(y * y, -1, true) + mx::array(1e-6f)) * norm;
  const auto rows = mx::reshape(mx::take(table, ids, 0), {3, 2, kWidth});
  const auto want = (y + rows * mx::array(2.0f)) * mx::array(std::sqrt(0.5f));
  const auto inputs = layer_inputs(ids, x, embedding, 1e-6f);
  EXPECT_TRUE(close(inputs, mx::reshape(want, {3, 2 * kWidth})));

  const auto gate = mx::random::normal({kWidth, kHidden});
  const auto out = mx::random::normal({kHidden, kWidth});
  const auto ones = mx::ones({kHidden});
  const LayerInput layer{{gate, {}}, {out, {}}, ones};
  const auto g = mx::matmul(x, mx::transpose(gate));
  const auto gelu =
      mx::array(0.5f) * g *
      (mx::array(1.0f) + mx::tanh(mx::array(0.7978845608f) *
                                  (g + mx::array(0.044715f) * g * g * g)));
  const auto own =
      mx::reshape(mx::slice(want, {0, 1, 0}, {3, 2, kWidth}), {3, kWidth});
  auto z = mx::matmul(gelu * own, mx::transpose(out));
  z = z / mx::sqrt(mx::mean(z * z, -1, true) + mx::array(1e-6f));
  EXPECT_TRUE(close(layer_input(x, inputs, 1, layer, 1e-6f), z));
}

}  // namespace
}  // namespace reprise
