// The norms beside rms_norm, and heads of all of them. Their bits are tested
// in rows_test.
#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <cmath>
#include <functional>

#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::values_of;

constexpr int kRows = 4;
constexpr int kHeads = 3;

double rounding(mx::Dtype dtype) {
  return dtype == mx::bfloat16  ? 0x1p-8
         : dtype == mx::float16 ? 0x1p-11
                                : 0x1p-24;
}

// Three heads of one size, and what goes with them.
struct Inputs {
  int dim;
  array x, gate, weight, bias;

  Inputs(int dim, mx::Dtype dtype)
      : dim(dim),
        x(random(kRows, kHeads * dim, 1, dtype)),
        gate(random(kRows, kHeads * dim, 2, dtype)),
        weight(mx::reshape(random(1, dim, 3, dtype), {dim})),
        bias(mx::reshape(random(1, dim, 4, dtype), {dim})) {}

  static array random(int rows, int columns, std::uint64_t seed,
                      mx::Dtype dtype) {
    auto values = random_floats(std::size_t(rows) * columns, seed);
    for (float& v : values) v = 3 * v + 0.5f;
    return make_array(values, {rows, columns}, dtype);
  }
};

struct Norm {
  const char* name;
  std::function<array(const Inputs&)> ours;
  std::function<array(const Inputs&)> plain;
  // Element i of a head with these sums, in double.
  struct Head {
    const float* x;
    const float* gate;
    double mean, squares, variance;
    int dim;
  };
  std::function<double(const Head&, int i, double weight, double bias)> exact;
};

const std::vector<Norm> kNorms = {
    {"rms_norm",
     [](const Inputs& in) { return rms_norm(in.x, in.weight, 1e-5f); },
     [](const Inputs& in) { return plain::rms_norm(in.x, in.weight, 1e-5f); },
     [](const Norm::Head& h, int i, double weight, double) {
       return h.x[i] / std::sqrt(h.squares / h.dim + double{1e-5f}) * weight;
     }},
    {"unweighted_rms_norm",
     [](const Inputs& in) { return unweighted_rms_norm(in.x, in.dim, 1e-6f); },
     [](const Inputs& in) {
       return plain::unweighted_rms_norm(in.x, in.dim, 1e-6f);
     },
     [](const Norm::Head& h, int i, double, double) {
       return h.x[i] / std::sqrt(h.squares / h.dim + double{1e-6f});
     }},
    {"gated_rms_norm",
     [](const Inputs& in) {
       return gated_rms_norm(in.x, in.weight, in.gate, 1e-5f);
     },
     [](const Inputs& in) {
       return plain::gated_rms_norm(in.x, in.weight, in.gate, 1e-5f);
     },
     [](const Norm::Head& h, int i, double weight, double) {
       return h.x[i] / std::sqrt(h.squares / h.dim + double{1e-5f}) * weight /
              (1 + std::exp(-double{h.gate[i]}));
     }},
    {"layer_norm",
     [](const Inputs& in) {
       return layer_norm(in.x, in.weight, in.bias, 1e-6f);
     },
     [](const Inputs& in) {
       return plain::layer_norm(in.x, in.weight, in.bias, 1e-6f);
     },
     [](const Norm::Head& h, int i, double weight, double bias) {
       return (h.x[i] - h.mean) / std::sqrt(h.variance + double{1e-6f}) *
                  weight +
              bias;
     }},
    {"l2_norm",
     [](const Inputs& in) { return l2_norm(in.x, in.dim, 1e-6f, 0.125f); },
     [](const Inputs& in) {
       return plain::l2_norm(in.x, in.dim, 1e-6f, 0.125f);
     },
     [](const Norm::Head& h, int i, double, double) {
       return h.x[i] / std::sqrt(h.squares + double{1e-6f}) * 0.125;
     }},
};

std::vector<double> exact_of(const Norm& norm, const Inputs& in) {
  const auto x = values_of(in.x), gate = values_of(in.gate);
  const auto weight = values_of(in.weight), bias = values_of(in.bias);
  std::vector<double> out;
  for (int begin = 0; begin < kRows * kHeads * in.dim; begin += in.dim) {
    Norm::Head h{&x[begin], &gate[begin], 0, 0, 0, in.dim};
    for (int i = 0; i < in.dim; ++i) {
      h.mean += double{h.x[i]} / in.dim;
      h.squares += double{h.x[i]} * h.x[i];
    }
    for (int i = 0; i < in.dim; ++i)
      h.variance += (h.x[i] - h.mean) * (h.x[i] - h.mean) / in.dim;
    for (int i = 0; i < in.dim; ++i)
      out.push_back(norm.exact(h, i, weight[i], bias[i]));
  }
  return out;
}

TEST(Norms, AreExactWithinBounds) {
  for (const Norm& norm : kNorms)
    for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
      for (int dim : {2, 7, 16, 64, 100}) {
        SCOPED_TRACE(norm.name);
        const Inputs in(dim, dtype);
        const auto want = exact_of(norm, in);
        const auto ours = values_of(norm.ours(in));
        const auto plain = values_of(norm.plain(in));
        ASSERT_EQ(ours.size(), want.size());
        // A sum of dim squares, half of whose error survives the root, and
        // some ten single roundings. What is subtracted (mean and bias) can
        // be larger than what is left: numbers are up to 3.5 of either sign,
        // and of at least 0.1 once they are spread.
        const bool cancels = norm.name == std::string("layer_norm");
        for (std::size_t i = 0; i < want.size(); ++i) {
          const double size = std::abs(want[i]) + (cancels ? 60 : 0);
          ASSERT_NEAR(ours[i], want[i],
                      (dim / 32.0 + 13) * 0x1p-24 * size +
                          rounding(dtype) * std::abs(want[i]) + 1e-7)
              << dim;
          ASSERT_NEAR(plain[i], want[i],
                      (dim + 16) * 0x1p-24 * size +
                          rounding(dtype) * std::abs(want[i]) + 1e-7);
        }
      }
}

// A head's weight is each head's; a row of one head is the same as before.
TEST(Norms, TakeEachHeadByItself) {
  const Inputs in(20, mx::float32);
  for (const Norm& norm : kNorms) {
    Inputs one = in;
    one.x = mx::reshape(in.x, {kRows * kHeads, 20});
    one.gate = mx::reshape(in.gate, {kRows * kHeads, 20});
    EXPECT_EQ(bytes_of(norm.ours(in)), bytes_of(norm.ours(one))) << norm.name;
  }
}

TEST(Norms, RefuseWhatDoesNotFit) {
  const Inputs in(20, mx::float32);
  const array short_weight = mx::zeros({19});
  EXPECT_THROW(unweighted_rms_norm(in.x, 19, 1), std::invalid_argument);
  EXPECT_THROW(unweighted_rms_norm(in.x, 0, 1), std::invalid_argument);
  EXPECT_THROW(l2_norm(in.x, 7, 1, 1), std::invalid_argument);
  EXPECT_THROW(gated_rms_norm(in.x, short_weight, in.gate, 1),
               std::invalid_argument);
  EXPECT_THROW(
      gated_rms_norm(in.x, in.weight, mx::astype(in.gate, mx::float16), 1),
      std::invalid_argument);
  EXPECT_THROW(layer_norm(in.x, in.weight, short_weight, 1),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
