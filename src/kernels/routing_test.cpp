#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "kernels/experts.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;
using Score = RoutingRule::Score;

std::vector<int> ints_of(const array& a) {
  array known = mx::contiguous(a);
  known.eval();
  return {known.data<std::int32_t>(),
          known.data<std::int32_t>() + known.size()};
}

struct Case {
  const char* name;
  int experts;
  RoutingRule rule;
  bool bias = false;
  bool expert_scale = false;
};

const std::vector<Case> kCases = {
    {"sigmoid, bias, as GLM-4.7-Flash",
     64,
     {4, Score::sigmoid, true, 1.8f},
     true},
    {"sigmoid, bias, as GLM-5.3-Flash",
     288,
     {8, Score::sigmoid, true, 2.5f},
     true},
    {"groups, as DeepSeek-V3", 64, {6, Score::sigmoid, true, 2.5f, 8, 4}, true},
    {"softmax, as Qwen3-MoE", 128, {8, Score::softmax, true}},
    {"softmax, per expert, as Gemma 4",
     128,
     {8, Score::softmax, true},
     false,
     true},
    {"softmax, not normalized", 21, {3, Score::softmax, false}},
    {"all of them", 5, {5, Score::sigmoid, false}},
};

array random_logits(int rows, int experts, mx::Dtype type,
                    std::uint64_t seed = 1) {
  auto values = random_floats(std::size_t(rows) * experts, seed);
  for (float& v : values) v *= 4;
  return make_array(values, {rows, experts}, type);
}

// Of a size that changes the choice.
std::optional<array> vector_if(bool wanted, int experts, std::uint64_t seed) {
  if (!wanted) return {};
  auto values = random_floats(experts, seed);
  for (float& v : values) v = 0.6f + 0.5f * v;
  return make_array(values, {experts});
}

Routing run(const Case& c, const array& logits) {
  return route(logits, c.rule, vector_if(c.bias, c.experts, 2),
               vector_if(c.expert_scale, c.experts, 3));
}

TEST(Route, EqualsItsPlainComposition) {
  for (const Case& c : kCases)
    for (auto type : {mx::float32, mx::bfloat16, mx::float16}) {
      SCOPED_TRACE(c.name);
      const array logits = random_logits(33, c.experts, type);
      const Routing ours = run(c, logits);
      const Routing plain =
          plain::route(logits, c.rule, vector_if(c.bias, c.experts, 2),
                       vector_if(c.expert_scale, c.experts, 3));
      // Two scores that differ by less than both's rounding could change
      // places; among these numbers none do.
      ASSERT_EQ(ints_of(ours.ids), ints_of(plain.ids));
      const auto a = values_of(ours.weights), b = values_of(plain.weights);
      // exp of 2 ulp or more each, a sum of experts, a quotient.
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], std::abs(b[i]) * (24 + c.experts) * 0x1p-24);
    }
}

// A second way for one row, straight from the rule.
TEST(Route, ChoosesByBiasAndWeighsWithoutIt) {
  const std::vector<float> z = {0.0f, 1.0f, 2.0f, -1.0f};
  const array bias = make_array({0.9f, 0.0f, -0.5f, 0.8f}, {4});
  const Routing r =
      route(make_array(z, {1, 4}), {2, Score::sigmoid, true, 3.0f}, bias);
  // 0.5 + 0.9, 0.731, 0.381, 0.269 + 0.8
  EXPECT_EQ(ints_of(r.ids), (std::vector<int>{0, 3}));
  const double p0 = 0.5, p3 = 1 / (1 + std::exp(1.0));
  const auto w = values_of(r.weights);
  EXPECT_NEAR(w[0], 3 * p0 / (p0 + p3), 1e-6);
  EXPECT_NEAR(w[1], 3 * p3 / (p0 + p3), 1e-6);
}

TEST(Route, OfEqualScoresTheLowestIdComesFirst) {
  for (Score score : {Score::sigmoid, Score::softmax}) {
    const array logits = make_array(
        {1, 2, 1, 2, 2, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 18});
    EXPECT_EQ(ints_of(route(logits, {6, score}).ids),
              (std::vector<int>{1, 3, 4, 7, 8, 9}));
  }
}

TEST(Route, KeepsToTheBestGroups) {
  // Group 1 has the two best experts together, group 2 the single best.
  const array logits =
      make_array({0, 1, 1, 0, 3, 3, -9, -9, 4, -9, -9, -9}, {1, 12});
  EXPECT_EQ(ints_of(route(logits, {3, Score::sigmoid, false, 1, 3, 1}).ids),
            (std::vector<int>{4, 5, 6}));
  EXPECT_EQ(ints_of(route(logits, {3, Score::sigmoid, false, 1, 3, 2}).ids),
            (std::vector<int>{4, 5, 1}));
}

TEST(Route, DoesNotDependOnTheCompanyOrThreadsOrInstructionSet) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const array logits = random_logits(150, c.experts, mx::bfloat16, 5);
    const Routing all = run(c, logits);
    const auto ids = bytes_of(all.ids), weights = bytes_of(all.weights);
    test_support::with_every_isa([&] {
      for (int threads : {1, 2})
        test_support::with_threads(threads, [&] {
          const Routing again = run(c, logits);
          EXPECT_TRUE(bytes_of(again.ids) == ids);
          EXPECT_TRUE(bytes_of(again.weights) == weights);
        });
    });
    for (int begin : {0, 3, 140})
      for (int count : {1, 10}) {
        const Routing some =
            run(c, mx::slice(logits, {begin, 0}, {begin + count, c.experts}));
        EXPECT_EQ(bytes_of(some.ids), row_bytes_of(all.ids, begin, count));
        EXPECT_EQ(bytes_of(some.weights),
                  row_bytes_of(all.weights, begin, count));
      }
  }
}

// One that is no number must neither take another row with it nor give ids
// that are no experts.
TEST(Route, OfWhatIsNotANumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    auto values = values_of(random_logits(3, c.experts, mx::float32));
    for (int i = 0; i < c.experts; ++i) values[i] = kNan;
    values[c.experts] = kNan;
    const Routing r = run(c, make_array(values, {3, c.experts}));
    const auto ids = ints_of(r.ids);
    const auto weights = values_of(r.weights);
    const int k = c.rule.top_k;
    for (int row = 0; row < 3; ++row) {
      const std::set<int> distinct(ids.begin() + row * k,
                                   ids.begin() + (row + 1) * k);
      EXPECT_EQ(distinct.size(), static_cast<std::size_t>(k));
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), c.experts);
    }
    EXPECT_TRUE(std::isnan(weights[0]));
    // Its sigmoid is an expert's own; a softmax has it in its sum.
    EXPECT_EQ(std::isnan(weights[k]), c.rule.score == Score::softmax);
    EXPECT_FALSE(std::isnan(weights[2 * k]));
  }
}

TEST(Route, OfNoTokens) {
  const Routing r = route(mx::zeros({0, 8}), {2, Score::softmax});
  EXPECT_EQ(ints_of(r.ids).size(), 0u);
  EXPECT_EQ(r.weights.shape(), (mx::Shape{0, 2}));
}

TEST(Route, RefusesWhatDoesNotFit) {
  const array logits = random_logits(2, 12, mx::float32);
  EXPECT_THROW(route(logits, {13}), std::invalid_argument);
  EXPECT_THROW(route(logits, {0}), std::invalid_argument);
  EXPECT_THROW(route(logits, {2, Score::sigmoid, true, 1, 5, 1}),
               std::invalid_argument);
  EXPECT_THROW(route(logits, {5, Score::sigmoid, true, 1, 3, 1}),
               std::invalid_argument);
  EXPECT_THROW(route(logits, {2}, make_array({1, 2}, {2})),
               std::invalid_argument);
  EXPECT_THROW(route(mx::astype(logits, mx::int32), {2}),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
