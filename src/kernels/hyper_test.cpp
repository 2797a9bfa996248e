#include "kernels/hyper.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <cmath>

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
using test_support::with_every_isa;
using test_support::with_threads;

const std::vector<mx::Dtype> kDtypes = {mx::float32, mx::bfloat16, mx::float16};

double rounding(mx::Dtype dtype) {
  return dtype == mx::bfloat16  ? 0x1p-8
         : dtype == mx::float16 ? 0x1p-11
                                : 0x1p-24;
}

array random_rows(int rows, int dim, std::uint64_t seed,
                  mx::Dtype dtype = mx::float32, float size = 1) {
  auto values = random_floats(std::size_t(rows) * dim, seed);
  for (float& v : values) v *= size;
  return make_array(values, {rows, dim}, dtype);
}

HyperWeights random_weights(int streams, int dim,
                            mx::Dtype dtype = mx::float32) {
  const int size = streams * (2 + streams);
  return {.fn = random_rows(size, streams * dim, 1, dtype, 0.2f),
          .base = make_array(random_floats(size, 2), {size}),
          .scale = make_array({0.7f, -0.9f, 1.3f}, {3}),
          .streams = streams};
}

// In double, straight from the definition.
struct Exact {
  std::vector<double> u, mix;
};

void balance(std::vector<double>& c, int s, bool columns, double eps) {
  for (int i = 0; i < s; ++i) {
    double total = eps;
    const auto at = [&](int j) -> double& {
      return columns ? c[j * s + i] : c[i * s + j];
    };
    for (int j = 0; j < s; ++j) total += at(j);
    for (int j = 0; j < s; ++j) at(j) /= total;
  }
}

Exact exact_in(const array& streams, const HyperWeights& w) {
  const auto x = values_of(streams), fn = values_of(w.fn);
  const auto base = values_of(w.base), scale = values_of(w.scale);
  const int s = w.streams, all = streams.shape(1), dim = all / s;
  Exact out;
  for (int row = 0; row < streams.shape(0); ++row) {
    const float* in = &x[std::size_t(row) * all];
    double squares = 0;
    for (int i = 0; i < all; ++i) squares += double{in[i]} * in[i];
    const double inverse = 1 / std::sqrt(squares / all + double{w.eps});
    std::vector<double> z(s * (2 + s), 0);
    for (std::size_t n = 0; n < z.size(); ++n) {
      for (int i = 0; i < all; ++i) z[n] += double{fn[n * all + i]} * in[i];
      const int part = static_cast<int>(n) < s ? 0 : n < 2u * s ? 1 : 2;
      z[n] = z[n] * inverse * scale[part] + base[n];
    }
    for (int h = 0; h < s; ++h) {
      z[h] = 1 / (1 + std::exp(-z[h])) + double{w.mix_eps};
      z[s + h] = 2 / (1 + std::exp(-z[s + h]));
    }
    std::vector<double> c(z.begin() + 2 * s, z.end());
    for (double& v : c) v = std::exp(v);
    balance(c, s, false, 0);
    for (double& v : c) v += double{w.mix_eps};
    balance(c, s, true, w.mix_eps);
    for (int i = 1; i < w.iterations; ++i) {
      balance(c, s, false, w.mix_eps);
      balance(c, s, true, w.mix_eps);
    }
    std::copy(c.begin(), c.end(), z.begin() + 2 * s);
    out.mix.insert(out.mix.end(), z.begin(), z.end());
    for (int d = 0; d < dim; ++d) {
      double u = 0;
      for (int h = 0; h < s; ++h) u += z[h] * in[h * dim + d];
      out.u.push_back(u);
    }
  }
  return out;
}

void expect_near(const array& got, const std::vector<double>& want,
                 double absolute, double relative) {
  const auto values = values_of(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], want[i], absolute + relative * std::abs(want[i]))
        << i;
}

TEST(HyperIn, IsTheDefinitionWithinBounds) {
  for (int streams : {1, 2, 4, 8})
    for (auto dtype : kDtypes) {
      SCOPED_TRACE(streams);
      const int dim = 37, all = streams * dim;
      const auto x = random_rows(9, all, 3, dtype, 4.0f);
      const auto w = random_weights(streams, dim, dtype);
      const Exact exact = exact_in(x, w);
      // A product of `all` terms, each up to 0.2 * 2, in K / 16 + 4 roundings;
      // the scale is up to 1.3 and no gate is steeper than 1.
      const double bound =
          1.3 * all * 0.4 * (all / 16.0 + 4) * 0x1p-24 + 60 * 0x1p-24;
      const auto ours = hyper_in(x, w);
      ASSERT_EQ(ours.u.dtype(), dtype);
      ASSERT_EQ(ours.mix.dtype(), mx::float32);
      expect_near(ours.mix, exact.mix, bound, 0);
      expect_near(ours.u, exact.u, 4.0 * streams * bound, rounding(dtype));
      const auto plain = plain::hyper_in(x, w);
      expect_near(plain.mix, exact.mix, 16 * bound, 0);
      expect_near(plain.u, exact.u, 64.0 * streams * bound, rounding(dtype));
    }
}

// One balancing leaves the rows unlike; twenty make all sums 1.
TEST(HyperIn, BalancesAsOftenAsItIsTold) {
  const auto x = random_rows(5, 4 * 16, 4, mx::float32, 3.0f);
  auto w = random_weights(4, 16);
  w.scale = make_array({1, 1, 6}, {3});
  const auto worst_row = [&](int iterations) {
    w.iterations = iterations;
    expect_near(hyper_in(x, w).mix, exact_in(x, w).mix, 1e-4, 0);
    const auto mix = values_of(hyper_in(x, w).mix);
    double worst = 0;
    for (int row = 0; row < 5; ++row)
      for (int i = 0; i < 4; ++i) {
        double total = 0;
        for (int j = 0; j < 4; ++j) total += mix[row * 24 + 8 + 4 * i + j];
        worst = std::max(worst, std::abs(total - 1));
      }
    return worst;
  };
  const double once = worst_row(1), often = worst_row(20);
  EXPECT_GT(once, 0.05);
  EXPECT_LT(often, once / 10);
}

TEST(HyperOut, SumsOverTheRowsOfTheMix) {
  // Two streams of one number; C = [[2, 3], [5, 7]].
  const auto streams = make_array({10, 100}, {1, 2});
  const auto y = make_array({1}, {1, 1});
  const auto mix = make_array({0, 0, 0.25f, 0.5f, 2, 3, 5, 7}, {1, 8});
  const std::vector<float> want = {0.25f + 2 * 10 + 5 * 100,
                                   0.5f + 3 * 10 + 7 * 100};
  EXPECT_EQ(values_of(hyper_out(streams, y, mix)), want);
  EXPECT_EQ(values_of(plain::hyper_out(streams, y, mix)), want);
}

TEST(HyperOut, EqualsItsPlainComposition) {
  for (auto dtype : kDtypes) {
    const auto x = random_rows(6, 4 * 37, 5, dtype);
    const auto y = random_rows(6, 37, 6, dtype);
    const auto mix = random_rows(6, 24, 7);
    const auto plain = values_of(plain::hyper_out(x, y, mix));
    // Five products up to 1 in size.
    expect_near(hyper_out(x, y, mix), {plain.begin(), plain.end()},
                50 * 0x1p-24, 2 * rounding(dtype));
  }
}

TEST(HyperMean, EqualsItsPlainComposition) {
  for (auto dtype : kDtypes)
    for (int count : {1, 3, 4}) {
      const auto x = random_rows(6, count * 37, 8, dtype);
      const auto plain = values_of(plain::hyper_mean(x, count));
      expect_near(hyper_mean(x, count), {plain.begin(), plain.end()},
                  8 * 0x1p-24, 2 * rounding(dtype));
    }
}

// A site: into a sublayer that hands on what it gets, and out again.
std::vector<std::uint8_t> site(const array& x, const HyperWeights& w) {
  const auto in = hyper_in(x, w);
  const auto out = hyper_out(x, in.u, in.mix);
  return bytes_of(mx::concatenate({out, hyper_mean(out, w.streams)}, 1));
}

TEST(HyperBits, DoNotDependOnTheCompanyThreadsOrInstructionSet) {
  constexpr int kRows = 90, kDim = 420;
  const auto w = random_weights(4, kDim, mx::bfloat16);
  for (auto dtype : kDtypes) {
    const auto x = random_rows(kRows, 4 * kDim, 9, dtype, 3.0f);
    const auto all = site(x, w);
    const std::size_t row = all.size() / kRows;
    with_every_isa([&] {
      for (int threads : {1, 2})
        with_threads(threads, [&] { ASSERT_TRUE(site(x, w) == all); });
    });
    for (int begin : {0, 7, 80})
      for (int count : {1, 5, 10}) {
        const auto some =
            site(mx::slice(x, {begin, 0}, {begin + count, 4 * kDim}), w);
        ASSERT_TRUE(
            std::equal(some.begin(), some.end(), all.begin() + begin * row));
      }
  }
}

TEST(Hyper, RefusesWhatDoesNotFit) {
  const auto x = random_rows(2, 4 * 8, 10);
  auto w = random_weights(4, 8);
  w.streams = 3;
  EXPECT_THROW(hyper_in(x, w), std::invalid_argument);
  w = random_weights(4, 8);
  w.base = mx::astype(w.base, mx::bfloat16);
  EXPECT_THROW(hyper_in(x, w), std::invalid_argument);
  w = random_weights(4, 8);
  w.iterations = 0;
  EXPECT_THROW(hyper_in(x, w), std::invalid_argument);
  const auto y = random_rows(2, 8, 11), mix = random_rows(2, 24, 12);
  EXPECT_THROW(hyper_out(x, y, random_rows(2, 23, 12)), std::invalid_argument);
  EXPECT_THROW(hyper_out(x, random_rows(2, 7, 12), mix), std::invalid_argument);
  EXPECT_THROW(hyper_out(x, mx::astype(y, mx::float16), mix),
               std::invalid_argument);
  EXPECT_THROW(hyper_mean(x, 9), std::invalid_argument);
  EXPECT_THROW(hyper_mean(x, 5), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
