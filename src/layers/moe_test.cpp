#include "layers/moe.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/expert_branch.h"
#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;
using testing::checkpoint_of;
using testing::close;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::Tensors;
using testing::thrown_by;

constexpr int kExperts = 3, kHidden = 16, kWidth = 8;
const ExpertNames kNames = {.stacks = "mlp.switch_mlp", .list = "mlp.experts"};
const ExpertsOptions kOptions = {
    .experts = kExperts, .hidden = kHidden, .intermediate = kWidth};

struct Weights {
  mx::array gate = mx::random::normal({kExperts, kWidth, kHidden});
  mx::array up = mx::random::normal({kExperts, kWidth, kHidden});
  mx::array down = mx::random::normal({kExperts, kHidden, kWidth});

  Tensors stacks() const {
    return {{"mlp.switch_mlp.gate_proj.weight", gate},
            {"mlp.switch_mlp.up_proj.weight", up},
            {"mlp.switch_mlp.down_proj.weight", down}};
  }
  Tensors fused() const {
    return {{"mlp.experts.gate_up_proj", mx::concatenate({gate, up}, 1)},
            {"mlp.experts.down_proj", down}};
  }
  Tensors list() const {
    Tensors tensors;
    for (int e = 0; e < kExperts; ++e)
      for (const auto& [name, w] :
           {std::pair{"gate", gate}, {"up", up}, {"down", down}})
        tensors.insert_or_assign(
            fmt::format("mlp.experts.{}.{}_proj.weight", e, name),
            mx::contiguous(mx::take(w, e, 0)));
    return tensors;
  }
  // Of one expert, in MLX's own operations.
  mx::array mlp(const mx::array& x, int e) const {
    const auto times = [&](const mx::array& a, const mx::array& w) {
      return mx::matmul(a, mx::transpose(mx::take(w, e, 0)));
    };
    const auto g = times(x, gate);
    return times(g * mx::sigmoid(g) * times(x, up), down);
  }
};

kernels::Routing routing(int a, int b) {
  return {mx::array({a, b, b, a}, {2, 2}),
          mx::array({0.25f, 0.5f, 2.0f, 1.0f}, {2, 2})};
}

TEST(Experts, AreTheSameInEveryFormOfStorage) {
  const Weights w;
  const mx::array x = mx::random::normal({2, kHidden});
  const auto row = [&](const mx::array& y, int i) {
    return mx::slice(y, {i, 0}, {i + 1, kHidden});
  };
  const auto a = w.mlp(x, 0), b = w.mlp(x, 2);
  const auto want = mx::concatenate(
      {0.25f * row(a, 0) + 0.5f * row(b, 0), 2.0f * row(b, 1) + row(a, 1)}, 0);
  std::optional<mx::array> first;
  for (const Tensors& tensors : {w.stacks(), w.fused(), w.list()}) {
    const auto checkpoint = checkpoint_of(tensors);
    const auto experts = load_experts(*checkpoint, kNames, kOptions);
    const auto y = expert_mlp(x, experts, routing(0, 2));
    EXPECT_TRUE(close(y, want));
    if (!first) first = y;
    EXPECT_TRUE(same_bits(y, *first));
    EXPECT_TRUE(checkpoint->unread().empty());
  }
}

TEST(Experts, WhatIsMissingIsNamed) {
  Tensors tensors = Weights().list();
  tensors.erase("mlp.experts.1.up_proj.weight");
  const auto checkpoint = checkpoint_of(tensors);
  EXPECT_THAT(thrown_by([&] { load_experts(*checkpoint, kNames, kOptions); }),
              HasSubstr("mlp.experts.1.up_proj.weight"));
}

TEST(Moe, AddsWhatAllTokensShare) {
  const Weights w;
  const auto checkpoint = checkpoint_of(w.stacks());
  const GatedMlp shared{{mx::random::normal({kWidth, kHidden}), {}},
                        {mx::random::normal({kWidth, kHidden}), {}},
                        {mx::random::normal({kHidden, kWidth}), {}}};
  Moe block{.router = {mx::random::normal({kExperts, kHidden}), {}},
            // Only chooses: the weight stays the score's.
            .choice_bias = mx::array({0.0f, 9.0f, 0.0f}),
            .rule = {.top_k = 1,
                     .score = kernels::RoutingRule::Score::sigmoid,
                     .scale = 1.5f},
            .experts = load_experts(*checkpoint, kNames, kOptions),
            .shared = {}};
  const mx::array x = mx::random::normal({4, kHidden});
  const auto logits = router_logits(x, block.router);
  const auto weight = 1.5f * mx::sigmoid(mx::slice(logits, {0, 1}, {4, 2}));
  const auto routed = weight * w.mlp(x, 1);
  EXPECT_TRUE(close(moe(x, block), routed));
  block.shared = shared;
  EXPECT_TRUE(close(moe(x, block), routed + gated_mlp(x, shared)));
}

TEST(ExpertBranch, NormsWhatItSeesAndWhatItGives) {
  const Weights w;
  Tensors tensors = w.fused();
  const auto vector = [&](const char* name, int n) {
    const auto v = mx::random::normal({n});
    tensors.insert_or_assign(std::string("mlp.") + name, v);
    return v;
  };
  const auto mlp_norm = vector("post_feedforward_layernorm_1.weight", kHidden);
  const auto in = vector("pre_feedforward_layernorm_2.weight", kHidden);
  const auto out = vector("post_feedforward_layernorm_2.weight", kHidden);
  const auto router_norm = vector("router.scale", kHidden);
  const auto scale = vector("router.per_expert_scale", kExperts);
  const auto router = mx::random::normal({kExperts, kHidden});
  tensors.insert_or_assign("mlp.router.proj.weight", router);
  const auto checkpoint = checkpoint_of(tensors);
  const auto branch = load_expert_branch(
      *checkpoint, "mlp",
      {.experts = kOptions, .top_k = kExperts, .norm_eps = 1e-6f});
  EXPECT_TRUE(checkpoint->unread().empty());

  const auto norm = [](const mx::array& x, const mx::array& weight) {
    return x / mx::sqrt(mx::mean(x * x, -1, true) + mx::array(1e-6f)) * weight;
  };
  const auto x = mx::random::normal({2, kHidden});
  const auto mlp = mx::random::normal({2, kHidden});
  const auto p = mx::softmax(
      mx::matmul(norm(x, router_norm) * mx::array(0.25f),  // 16^-1/2
                 mx::transpose(router)),
      -1);
  auto y = mx::zeros_like(x);
  for (int e = 0; e < kExperts; ++e)
    y = y + mx::slice(p * scale, {0, e}, {2, e + 1}) * w.mlp(norm(x, in), e);
  EXPECT_TRUE(
      close(with_experts(mlp, x, branch), norm(mlp, mlp_norm) + norm(y, out)));
}

TEST(RoutingRule, ReadsDeepSeeksForm) {
  const auto rule = routing_rule({{"num_experts_per_tok", 4},
                                  {"n_group", 8},
                                  {"topk_group", 2},
                                  {"norm_topk_prob", false},
                                  {"routed_scaling_factor", 1.8}},
                                 64);
  EXPECT_EQ(rule.score, kernels::RoutingRule::Score::sigmoid);  // not said
  EXPECT_EQ(rule.top_k, 4);
  EXPECT_EQ(rule.groups, 8);
  EXPECT_EQ(rule.groups_kept, 2);
  EXPECT_FALSE(rule.normalize);
  EXPECT_FLOAT_EQ(rule.scale, 1.8f);
  EXPECT_TRUE(routing_rule({{"num_experts_per_tok", 1}}, 8).normalize);
}

TEST(RoutingRule, WhatIsNotServedIsNamed) {
  const std::pair<json, const char*> cases[] = {
      {{{"scoring_func", "softmax"}}, "\"scoring_func\" is \"softmax\""},
      {{{"topk_method", "greedy"}}, "must be noaux_tc"},
      {{{"n_group", 3}}, "3 groups"},
      {{{"n_group", 4}}, "4 of 8 experts"},
      {{{"num_experts_per_tok", 9}}, "9 of 8"}};
  for (const auto& [change, text] : cases) {
    json config = {{"num_experts_per_tok", 4}};
    config.update(change);
    EXPECT_THAT(thrown_by([&] { routing_rule(config, 8); }), HasSubstr(text));
  }
}

TEST(SparseLayers, AreListedOrFollowTheDenseOnes) {
  using Layers = std::vector<bool>;
  EXPECT_EQ(sparse_layers({{"first_k_dense_replace", 2}}, 3),
            (Layers{false, false, true}));
  EXPECT_EQ(sparse_layers({{"first_k_dense_replace", 0}}, 2),
            (Layers{true, true}));
  const json listed = {{"mlp_layer_types", {"dense", "sparse", "dense"}}};
  EXPECT_EQ(sparse_layers(listed, 3), (Layers{false, true, false}));
  json both = listed;
  both["first_k_dense_replace"] = 1;
  EXPECT_THAT(thrown_by([&] { sparse_layers(both, 3); }),
              HasSubstr("makes layer 2 dense"));
  EXPECT_THAT(thrown_by([] {
                sparse_layers({{"moe_layer_freq", 2}}, 3);
              }),
              HasSubstr("\"moe_layer_freq\" is 2"));
}

}  // namespace
}  // namespace reprise
