#include "layers/kda.h"

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
constexpr KdaHeads kHeads = {
    .heads = 2, .dim = 32, .kernel = 4, .lower_bound = -5.0f};
constexpr int kWidth = kHeads.heads * kHeads.dim;

// As Hugging Face's files have them.
Tensors separate() {
  Tensors tensors;
  const auto add = [&](const char* name, mx::Shape shape) {
    tensors.insert_or_assign(std::string("a.") + name,
                             mx::random::normal(shape));
  };
  for (const std::string part : {"q", "k", "v"}) {
    add((part + "_proj.weight").c_str(), {kWidth, kHidden});
    add((part + "_conv1d.weight").c_str(), {kWidth, 1, kHeads.kernel});
  }
  for (const std::string gate : {"f", "g"}) {
    add((gate + "_a_proj.weight").c_str(), {kHeads.dim, kHidden});
    add((gate + "_b_proj.weight").c_str(), {kWidth, kHeads.dim});
  }
  add("b_proj.weight", {kHeads.heads, kHidden});
  add("A_log", {kHeads.heads});
  add("dt_bias", {kWidth});
  add("o_norm.weight", {kHeads.dim});
  add("o_proj.weight", {kHidden, kWidth});
  return tensors;
}

// Puts `parts` on one another under a new name.
void fuse(Tensors& tensors, const std::string& name,
          const std::vector<std::string>& parts) {
  std::vector<mx::array> rows;
  for (const std::string& part : parts)
    rows.push_back(tensors.extract("a." + part + ".weight").mapped());
  tensors.insert_or_assign("a." + name + ".weight", mx::concatenate(rows, 0));
}

void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  auto node = tensors.extract("a." + from);
  node.key() = "a." + to;
  tensors.insert(std::move(node));
}

void fuse_conv(Tensors& tensors, const std::string& name) {
  fuse(tensors, name, {"q_conv1d", "k_conv1d", "v_conv1d"});
  mx::array& conv = tensors.at("a." + name + ".weight");
  conv = mx::contiguous(mx::swapaxes(conv, 1, 2));  // [channels, taps, 1]
}

Kda load(const Checkpoint& checkpoint) {
  return load_kda(checkpoint, "a", kHeads, kHidden, 1e-5f);
}

const mx::array& dense(const Linear& layer) {
  return std::get<mx::array>(layer.weight);
}

void expect_same(const Tensors& stored, const Kda& want) {
  const auto checkpoint = checkpoint_of(stored);
  const Kda is = load(*checkpoint);
  EXPECT_TRUE(checkpoint->unread().empty());
  for (const auto part :
       {&Kda::q, &Kda::k, &Kda::v, &Kda::decay_a, &Kda::decay_b, &Kda::beta,
        &Kda::gate_a, &Kda::gate_b, &Kda::o})
    EXPECT_TRUE(same_bits(dense(is.*part), dense(want.*part)));
  for (const auto part : {&Kda::conv, &Kda::rate, &Kda::bias, &Kda::norm})
    EXPECT_TRUE(same_bits(is.*part, want.*part));
}

TEST(Kda, EveryFormOfStorageIsTheSameLayer) {
  const Tensors hugging_face = separate();
  const auto checkpoint = checkpoint_of(hugging_face);
  const Kda want = load(*checkpoint);
  EXPECT_TRUE(checkpoint->unread().empty());

  Tensors deeper = hugging_face;
  for (const char* part :
       {"A_log", "dt_bias", "f_a_proj.weight", "f_b_proj.weight"})
    rename(deeper, part, std::string("forget_gate.") + part);
  fuse_conv(deeper, "conv1d");
  expect_same(deeper, want);

  Tensors fused = hugging_face;
  fuse(fused, "qkv_proj", {"q_proj", "k_proj", "v_proj"});
  fuse(fused, "fbg_a_proj", {"f_a_proj", "b_proj", "g_a_proj"});
  fuse_conv(fused, "qkv_conv.conv");
  expect_same(fused, want);

  Tensors mixed = hugging_face;
  rename(mixed, "A_log", "forget_gate.A_log");
  fuse(mixed, "qkv_proj", {"q_proj", "k_proj", "v_proj"});
  expect_same(mixed, want);
}

TEST(Kda, TapsStandInOrder) {
  const Tensors tensors = separate();
  const auto checkpoint = checkpoint_of(tensors);
  const auto taps = load(*checkpoint).conv;
  ASSERT_EQ(taps.shape(), (mx::Shape{kHeads.kernel, 3 * kWidth}));
  const auto keys = mx::slice(taps, {0, kWidth}, {kHeads.kernel, 2 * kWidth});
  const auto stored = tensors.at("a.k_conv1d.weight");
  EXPECT_TRUE(same_bits(
      keys, mx::transpose(mx::reshape(stored, {kWidth, kHeads.kernel}))));
}

TEST(Kda, RefusesByName) {
  Tensors tensors = separate();
  tensors.erase("a.k_conv1d.weight");
  EXPECT_THAT(thrown_by([&] { load(*checkpoint_of(tensors)); }),
              HasSubstr("a.k_conv1d.weight"));
  tensors.insert_or_assign("a.k_conv1d.weight", mx::zeros({kWidth, 1, 3}));
  EXPECT_THAT(thrown_by([&] { load(*checkpoint_of(tensors)); }),
              HasSubstr("'a.k_conv1d.weight' has 192 elements"));
  const json config = {{"num_heads", 2},
                       {"head_dim", 32},
                       {"short_conv_kernel_size", 4},
                       {"gate_lower_bound", 1.0}};
  EXPECT_THAT(thrown_by([&] { kda_heads(config); }),
              HasSubstr("\"gate_lower_bound\" is 1"));
}

TEST(Kda, StateHasOneSize) {
  const auto state = kda_state(kHeads, mx::bfloat16);
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].row_bytes(), 3u * 3 * kWidth * 2);
  EXPECT_EQ(state[1].row_bytes(), 2u * 32 * 32 * 4);
}

}  // namespace
}  // namespace reprise
