#include "layers/latent_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;
using testing::checkpoint_of;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::Tensors;
using testing::thrown_by;

constexpr int kHidden = 64;
constexpr LatentHeads kHeads = {.heads = 2,
                                .nope = 64,
                                .rope = 8,
                                .value = 32,
                                .latent = 64,
                                .query_rank = 16};

// All but the heads' matrices.
Tensors common() {
  Tensors tensors;
  const auto add = [&](const char* name, mx::Shape shape) {
    tensors.insert_or_assign(std::string("a.") + name,
                             mx::random::normal(shape));
  };
  add("q_a_proj.weight", {kHeads.query_rank, kHidden});
  add("q_a_layernorm.weight", {kHeads.query_rank});
  add("q_b_proj.weight", {kHeads.heads * kHeads.key(), kHeads.query_rank});
  add("kv_a_proj_with_mqa.weight", {kHeads.latent + kHeads.rope, kHidden});
  add("kv_a_layernorm.weight", {kHeads.latent});
  add("o_proj.weight", {kHidden, kHeads.heads * kHeads.value});
  return tensors;
}

LatentAttention load(const Checkpoint& checkpoint) {
  return load_latent_attention(checkpoint, "a", kHeads, kHidden, 1e-5f);
}

// In groups of 64, rounded nowhere.
mx::array unpacked(const mx::array& words, const mx::array& scales,
                   const mx::array& biases, int bits) {
  return mx::dequantize(words, mx::astype(scales, mx::float32),
                        mx::astype(biases, mx::float32), 64, bits);
}

// As floats, whatever the form.
mx::array floats(const StackedMatrix& m) {
  const auto* q = std::get_if<kernels::QuantizedExperts>(&m);
  return q ? unpacked(q->words, q->scales, q->biases, q->bits)
           : std::get<mx::array>(m);
}

mx::array heads_of(const mx::array& both, int begin, int end) {
  const auto heads = mx::reshape(
      both, {kHeads.heads, kHeads.nope + kHeads.value, kHeads.latent});
  return mx::slice(heads, {0, begin, 0}, {kHeads.heads, end, kHeads.latent});
}

// The queries' matrices are the keys' turned round.
void expect_split(const LatentAttention& attention, const mx::array& both) {
  const auto keys = mx::swapaxes(heads_of(both, 0, kHeads.nope), 1, 2);
  const auto values = heads_of(both, kHeads.nope, kHeads.nope + kHeads.value);
  EXPECT_TRUE(same_bits(floats(attention.embed_q), keys));
  EXPECT_TRUE(same_bits(floats(attention.unembed_out), values));
}

TEST(LatentAttention, SplitsKeysAndValues) {
  Tensors tensors = common();
  const auto both = mx::random::normal(
      {kHeads.heads * (kHeads.nope + kHeads.value), kHeads.latent});
  tensors.insert_or_assign("a.kv_b_proj.weight", both);
  const auto checkpoint = checkpoint_of(tensors);
  expect_split(load(*checkpoint), both);
  EXPECT_TRUE(checkpoint->unread().empty());
}

TEST(LatentAttention, SplitsQuantizedOnesWithoutLoss) {
  for (int bits : {4, 8}) {
    Tensors tensors = common();
    const auto both = mx::random::normal(
        {kHeads.heads * (kHeads.nope + kHeads.value), kHeads.latent});
    testing::add_quantized(tensors, "a.kv_b_proj", both, bits);
    const auto checkpoint =
        checkpoint_of(tensors, testing::quantized_config(bits));
    const auto stored = unpacked(tensors.at("a.kv_b_proj.weight"),
                                 tensors.at("a.kv_b_proj.scales"),
                                 tensors.at("a.kv_b_proj.biases"), bits);
    const auto attention = load(*checkpoint);
    expect_split(attention, stored);
    EXPECT_TRUE(std::holds_alternative<kernels::QuantizedExperts>(
        attention.unembed_out));
    EXPECT_TRUE(checkpoint->unread().empty());
  }
}

TEST(LatentAttention, TakesThemSplit) {
  Tensors tensors = common();
  const auto embed = mx::random::normal({2, kHeads.latent, kHeads.nope});
  tensors.insert_or_assign("a.embed_q.weight", embed);
  tensors.insert_or_assign("a.unembed_out.weight",
                           mx::zeros({2, kHeads.value, kHeads.latent}));
  const auto checkpoint = checkpoint_of(tensors);
  EXPECT_TRUE(same_bits(floats(load(*checkpoint).embed_q), embed));
  tensors.insert_or_assign("a.unembed_out.weight",
                           mx::zeros({2, kHeads.latent, kHeads.value}));
  EXPECT_THAT(thrown_by([&] { load(*checkpoint_of(tensors)); }),
              HasSubstr("'a.unembed_out.weight' is 2 x 64 x 32, but the "
                        "configuration asks for 2 x 32 x 64"));
}

TEST(LatentAttention, WhatIsMissingOrContradictsIsNamed) {
  EXPECT_THAT(thrown_by([] { load(*checkpoint_of(common())); }),
              HasSubstr("a.kv_b_proj"));
  Tensors tensors = common();
  tensors.insert_or_assign("a.kv_b_proj.weight", mx::zeros({192, 64}));
  EXPECT_THAT(thrown_by([&] {
                load(*checkpoint_of(tensors, {{"attention_bias", true}}));
              }),
              HasSubstr("'a.q_a_proj.bias' is missing"));
}

// The published model: 47 layers of 512 and 64 elements in two bytes.
TEST(LatentState, IsOneVectorForAllHeads) {
  const LatentHeads heads = latent_heads({{"num_attention_heads", 20},
                                          {"qk_nope_head_dim", 192},
                                          {"qk_rope_head_dim", 64},
                                          {"v_head_dim", 256},
                                          {"kv_lora_rank", 512},
                                          {"q_lora_rank", 768}});
  EXPECT_EQ(heads.key(), 256);
  const LayerState state = latent_state(heads, mx::bfloat16);
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(47 * token_bytes(state), 54144);
  EXPECT_THAT(thrown_by([] {
                latent_heads({{"num_attention_heads", 20}});
              }),
              HasSubstr("qk_nope_head_dim"));
}

}  // namespace
}  // namespace reprise
