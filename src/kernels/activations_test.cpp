// The operations of each element by itself beside swiglu and add. Their bits
// are tested in rows_test.
#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::make_array;
using test_support::random_floats;
using test_support::values_of;

double rounding(mx::Dtype dtype) {
  return dtype == mx::bfloat16  ? 0x1p-8
         : dtype == mx::float16 ? 0x1p-11
                                : 0x1p-24;
}

double exact_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double exact_gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                        (x + 0.044715 * x * x * x)));
}

constexpr double kLimit = 2.5;

struct Operation {
  const char* name;
  std::function<array(const array& a, const array& b)> ours;
  std::function<array(const array& a, const array& b)> plain;
  std::function<double(double a, double b)> exact;
  // Errors are relative to |result| + this times |b|: gelu's sum of 1 and tanh
  // cancels.
  double cancels = 0;
};

const std::vector<Operation> kOperations = {
    {"limited swiglu",
     [](const array& a, const array& b) { return swiglu(a, b, kLimit); },
     [](const array& a, const array& b) { return plain::swiglu(a, b, kLimit); },
     [](double a, double b) {
       const double gate = std::min(a, kLimit);
       return gate * exact_sigmoid(gate) * std::clamp(b, -kLimit, kLimit);
     }},
    {"geglu", [](const array& a, const array& b) { return geglu(a, b); },
     [](const array& a, const array& b) { return plain::geglu(a, b); },
     [](double a, double b) { return exact_gelu(a) * b; }, 8},
    {"sigmoid_gate",
     [](const array& a, const array& b) { return sigmoid_gate(b, a); },
     [](const array& a, const array& b) { return plain::sigmoid_gate(b, a); },
     [](double a, double b) { return b * exact_sigmoid(a); }},
    {"sigmoid",
     [](const array& a, const array&) { return kernels::sigmoid(a); },
     [](const array& a, const array&) { return plain::sigmoid(a); },
     [](double a, double) { return exact_sigmoid(a); }},
    {"scale", [](const array& a, const array&) { return scale(a, 33.94f); },
     [](const array& a, const array&) { return plain::scale(a, 33.94f); },
     [](double a, double) { return a * double{33.94f}; }},
    {"softcap", [](const array& a, const array&) { return softcap(a, 6); },
     [](const array& a, const array&) { return plain::softcap(a, 6); },
     [](double a, double) { return 6 * std::tanh(a / 6); }},
};

array random_rows(int rows, int dim, std::uint64_t seed, mx::Dtype dtype) {
  auto values = random_floats(std::size_t(rows) * dim, seed);
  for (float& v : values) v *= 8;
  return make_array(values, {rows, dim}, dtype);
}

TEST(Activations, AreExactWithinBounds) {
  for (const Operation& operation : kOperations)
    for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
      for (int dim : {1, 15, 100}) {
        SCOPED_TRACE(operation.name);
        const auto a = random_rows(5, dim, 1, dtype);
        const auto b = random_rows(5, dim, 2, dtype);
        const auto x = values_of(a), y = values_of(b);
        const auto ours = operation.ours(a, b), plain = operation.plain(a, b);
        ASSERT_EQ(ours.dtype(), dtype);
        const auto got = values_of(ours), theirs = values_of(plain);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double want = operation.exact(x[i], y[i]);
          const double size =
              std::abs(want) + operation.cancels * std::abs(double{y[i]});
          const double least = rounding(dtype) * std::abs(want) +
                               (dtype == mx::float16 ? 0x1p-25 : 1e-37);
          // An exp of 2 ulp (4 roundings) or a tanh of 3, and a few more.
          ASSERT_NEAR(got[i], want, 10 * 0x1p-24 * size + least);
          ASSERT_NEAR(theirs[i], want, 30 * 0x1p-24 * size + least);
        }
      }
}

TEST(Activations, HandOnWhatIsNotANumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto a = make_array({1, kNan, 1, 1}, {1, 4});
  const auto b = make_array({1, 1, kNan, 1}, {1, 4});
  for (const Operation& operation : kOperations) {
    const auto out = values_of(operation.ours(a, b));
    EXPECT_FALSE(std::isnan(out[0])) << operation.name;
    EXPECT_TRUE(std::isnan(out[1])) << operation.name;
    EXPECT_FALSE(std::isnan(out[3])) << operation.name;
    const bool takes_b = std::isnan(operation.exact(1, kNan));
    EXPECT_EQ(std::isnan(out[2]), takes_b) << operation.name;
  }
}

// Only the gate's upper end is cut off.
TEST(Activations, TheLimitIsOneSidedForTheGate) {
  const auto gate = make_array({-9, 9, 1, 1}, {1, 4});
  const auto up = make_array({1, 1, -9, 9}, {1, 4});
  const auto out = values_of(swiglu(gate, up, 2));
  EXPECT_NEAR(out[0], -9 * exact_sigmoid(-9), 1e-9);
  EXPECT_NEAR(out[1], 2 * exact_sigmoid(2), 1e-6);
  EXPECT_NEAR(out[2], -2 * exact_sigmoid(1), 1e-6);
  EXPECT_NEAR(out[3], 2 * exact_sigmoid(1), 1e-6);
}

TEST(Activations, RefuseWhatDoesNotFit) {
  const auto x = random_rows(2, 8, 1, mx::float32);
  const auto y = random_rows(2, 9, 1, mx::float32);
  EXPECT_THROW(swiglu(x, x, 0), std::invalid_argument);
  EXPECT_THROW(swiglu(x, y, 1), std::invalid_argument);
  EXPECT_THROW(geglu(x, y), std::invalid_argument);
  EXPECT_THROW(sigmoid_gate(x, mx::astype(x, mx::float16)),
               std::invalid_argument);
  EXPECT_THROW(softcap(x, 0), std::invalid_argument);
  EXPECT_THROW(softcap(mx::reshape(x, {16}), 1), std::invalid_argument);
  EXPECT_THROW(kernels::sigmoid(mx::astype(x, mx::int32)),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
