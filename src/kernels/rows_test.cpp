// The operations on each row by itself: rms_norm, swiglu, add and rope, and
// the bits of all of them.
#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/recurrence.h"
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

// Half the distance between neighbours of 1.
double rounding(mx::Dtype dtype) {
  return dtype == mx::bfloat16  ? 0x1p-8
         : dtype == mx::float16 ? 0x1p-11
                                : 0x1p-24;
}

array random_rows(int rows, int dim, mx::Dtype dtype, std::uint64_t seed,
                  float size = 3.0f) {
  auto values = random_floats(std::size_t(rows) * dim, seed);
  for (float& v : values) v *= size;
  return make_array(values, {rows, dim}, dtype);
}

// |got - want| <= relative * |want| plus a rounding to the dtype of x.
void expect_close(const array& got, const std::vector<double>& want,
                  double relative) {
  ASSERT_EQ(got.size(), want.size());
  const auto values = values_of(got);
  for (std::size_t i = 0; i < want.size(); ++i) {
    // Below 1e-37 exp is at its end, and float16 has subnormals.
    const double least = got.dtype() == mx::float16 ? 0x1p-25 : 1e-37;
    ASSERT_NEAR(values[i], want[i],
                (relative + rounding(got.dtype())) * std::abs(want[i]) + least)
        << i;
  }
}

const std::vector<mx::Dtype> kDtypes = {mx::float32, mx::bfloat16, mx::float16};

// rms_norm: a sum of dim squares in lanes and a tree, one division, a root
// and two products, each rounded once; half of the sum's error survives the
// root.
double norm_bound(int dim) {
  return ((dim / 16 + 6) / 2.0 + 5) * 0x1p-24;
}

TEST(RmsNorm, IsExactWithinBounds) {
  for (auto dtype : kDtypes)
    for (auto weight_dtype : kDtypes)
      for (int dim : {1, 7, 16, 64, 100, 576}) {
        const auto x = random_rows(5, dim, dtype, 1);
        const auto w = make_array(random_floats(dim, 2), {dim}, weight_dtype);
        const auto in = values_of(x), weight = values_of(w);
        std::vector<double> want;
        for (int r = 0; r < 5; ++r) {
          double squares = 0;
          for (int i = 0; i < dim; ++i)
            squares += double{in[r * dim + i]} * in[r * dim + i];
          for (int i = 0; i < dim; ++i)
            want.push_back(in[r * dim + i] /
                           std::sqrt(squares / dim + double{1e-5f}) *
                           weight[i]);
        }
        expect_close(rms_norm(x, w, 1e-5f), want, norm_bound(dim));
        // MLX's own sum may be one chain.
        expect_close(plain::rms_norm(x, w, 1e-5f), want,
                     (dim / 2.0 + 6) * 0x1p-24);
      }
}

TEST(Swiglu, IsExactWithinBounds) {
  for (auto dtype : kDtypes)
    for (int dim : {1, 15, 64, 1536}) {
      const auto gate = random_rows(3, dim, dtype, 3, 20.0f);
      const auto up = random_rows(3, dim, dtype, 4);
      const auto g = values_of(gate), u = values_of(up);
      std::vector<double> want;
      for (std::size_t i = 0; i < g.size(); ++i)
        want.push_back(g[i] / (1 + std::exp(-double{g[i]})) * u[i]);
      // An exp of 2 ulp (4 roundings), a sum, a quotient, a product.
      expect_close(swiglu(gate, up), want, 7 * 0x1p-24);
      // MLX's sigmoid uses an exp of a few ulp.
      expect_close(plain::swiglu(gate, up), want, 16 * 0x1p-24);
    }
}

TEST(Swiglu, AtItsEnds) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto gate = make_array({0.0f, -200.0f, 200.0f, kNan}, {1, 4});
  const auto out = values_of(swiglu(gate, make_array({1, 1, 1, 1}, {1, 4})));
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_NEAR(out[1], 0.0f, 1e-35f);
  EXPECT_EQ(out[2], 200.0f);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST(Add, IsRoundedOnce) {
  for (auto dtype : kDtypes)
    for (int dim : {1, 15, 576}) {
      const auto a = random_rows(4, dim, dtype, 5);
      const auto b = random_rows(4, dim, dtype, 6);
      EXPECT_EQ(bytes_of(kernels::add(a, b)), bytes_of(plain::add(a, b)));
    }
}

RopeTable table_at(int start, int rows, int half) {
  std::vector<float> frequencies;
  for (int i = 0; i < half; ++i)
    frequencies.push_back(
        std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
  RaggedBatch batch;
  batch.spans.push_back({0, rows, start, {}});
  batch.tokens = rows;
  return rope_table(batch, make_array(frequencies, {half}));
}

const std::vector<RopeShape> kRopeShapes = {
    {9, 64, 64, false}, {9, 64, 64, true}, {2, 80, 20, false},
    {3, 24, 10, true},  {1, 16, 0, false}, {2, 128, 64, false},
    {4, 16, 16, true},
};

TEST(Rope, EqualsItsPlainComposition) {
  for (auto dtype : kDtypes)
    for (const RopeShape& shape : kRopeShapes) {
      SCOPED_TRACE(shape.head_dim);
      const auto table = table_at(1000, 6, shape.rotary / 2);
      const auto x = random_rows(6, shape.heads * shape.head_dim, dtype, 7);
      // The same products and sums in both, each rounded once.
      EXPECT_EQ(bytes_of(rope(x, table.cos, table.sin, shape)),
                bytes_of(plain::rope(x, table.cos, table.sin, shape)));
    }
}

TEST(Rope, TurnsPairsByTheAngle) {
  // One head of 4: at position 2 with frequencies 1 and 0.01.
  const auto x = make_array({1, 0, 0, 1}, {1, 4});
  const auto table = table_at(2, 1, 2);
  const auto halves =
      values_of(rope(x, table.cos, table.sin, {1, 4, 4, false}));
  // Pairs (0, 2) and (1, 3): (1, 0) by 2, (0, 1) by 0.02.
  EXPECT_NEAR(halves[0], std::cos(2.0), 1e-7);
  EXPECT_NEAR(halves[2], std::sin(2.0), 1e-7);
  EXPECT_NEAR(halves[1], -std::sin(0.02), 1e-7);
  EXPECT_NEAR(halves[3], std::cos(0.02), 1e-7);
  const auto neighbours =
      values_of(rope(x, table.cos, table.sin, {1, 4, 4, true}));
  // Pairs (0, 1) and (2, 3): (1, 0) by 2, (0, 1) by 0.02.
  EXPECT_NEAR(neighbours[0], std::cos(2.0), 1e-7);
  EXPECT_NEAR(neighbours[1], std::sin(2.0), 1e-7);
  EXPECT_NEAR(neighbours[2], -std::sin(0.02), 1e-7);
  EXPECT_NEAR(neighbours[3], std::cos(0.02), 1e-7);
}

TEST(RopeTable, IsTheCosineOfTheFloatAngle) {
  const auto frequencies = make_array({1.0f, 0.1f, 0.0123f}, {3});
  RaggedBatch batch;
  batch.spans.push_back({0, 2, 131'070, {}});
  batch.spans.push_back({2, 0, 5, {}});
  batch.spans.push_back({2, 1, 7, {}});
  batch.tokens = 3;
  const auto table = rope_table(batch, frequencies);
  ASSERT_EQ(table.cos.shape(), (mx::Shape{3, 3}));
  const auto cos = values_of(table.cos), sin = values_of(table.sin);
  const auto f = values_of(frequencies);
  const int positions[] = {131'070, 131'071, 7};
  for (int row = 0; row < 3; ++row)
    for (int i = 0; i < 3; ++i) {
      const float angle = static_cast<float>(positions[row]) * f[i];
      const float c = std::cos(angle), s = std::sin(angle);
      EXPECT_NEAR(cos[row * 3 + i], c, std::abs(c) * 0x1p-23);
      EXPECT_NEAR(sin[row * 3 + i], s, std::abs(s) * 0x1p-23);
    }
}

// All of them, as functions of one [rows, 192] input.
struct RowCase {
  std::string name;
  std::function<array(const array& x, int first_position)> run;
};

std::vector<RowCase> row_cases(mx::Dtype dtype) {
  const auto weight = make_array(random_floats(192, 8), {192}, dtype);
  const auto rope_with = [](bool interleaved) {
    return [interleaved](const array& x, int first_position) {
      const auto table = table_at(first_position, x.shape(0), 24);
      return rope(x, table.cos, table.sin, {3, 64, 48, interleaved});
    };
  };
  const auto head = make_array(random_floats(64, 18), {64});
  const auto rate = make_array({-1, 0, 1}, {3});
  const auto backwards = [](const array& x) {
    return mx::slice(x, {0, 191}, {x.shape(0), -193}, {1, -1});
  };
  return {
      {"rms_norm of heads",
       [head](const array& x, int) { return rms_norm(x, head, 1e-5f); }},
      {"unweighted_rms_norm",
       [](const array& x, int) { return unweighted_rms_norm(x, 48, 1e-5f); }},
      {"gated_rms_norm",
       [head, backwards](const array& x, int) {
         return gated_rms_norm(x, head, backwards(x), 1e-5f);
       }},
      {"layer_norm",
       [weight](const array& x, int) {
         return layer_norm(x, weight, weight, 1e-5f);
       }},
      {"l2_norm",
       [](const array& x, int) { return l2_norm(x, 24, 1e-6f, 0.2f); }},
      {"limited swiglu",
       [backwards](const array& x, int) {
         return swiglu(x, backwards(x), 1.5f);
       }},
      {"geglu",
       [backwards](const array& x, int) { return geglu(x, backwards(x)); }},
      {"sigmoid_gate",
       [backwards](const array& x, int) {
         return sigmoid_gate(x, backwards(x));
       }},
      {"sigmoid", [](const array& x, int) { return kernels::sigmoid(x); }},
      {"scale", [](const array& x, int) { return scale(x, 0.3f); }},
      {"softcap", [](const array& x, int) { return softcap(x, 2); }},
      {"bounded decay",
       [weight, rate](const array& x, int) {
         return decay_gate(x, rate, weight, -5.0f);
       }},
      {"decay",
       [weight, rate](const array& x, int) {
         return decay_gate(x, rate, weight, {});
       }},
      {"rms_norm",
       [weight](const array& x, int) { return rms_norm(x, weight, 1e-5f); }},
      {"swiglu", [](const array& x, int) { return swiglu(x, x); }},
      {"add", [](const array& x, int) { return kernels::add(x, x); }},
      {"rope", rope_with(false)},
      {"rope interleaved", rope_with(true)},
  };
}

TEST(RowBits, DoNotDependOnTheNumberOfRows) {
  for (auto dtype : kDtypes)
    for (const RowCase& c : row_cases(dtype)) {
      const auto x = random_rows(64, 192, dtype, 9);
      const auto all = bytes_of(c.run(x, 0));
      const std::size_t row = all.size() / 64;
      for (int rows = 1; rows <= 64; ++rows)
        for (int first : {0, 64 - rows}) {
          const auto some = bytes_of(
              c.run(mx::slice(x, {first, 0}, {first + rows, 192}), first));
          ASSERT_TRUE(
              std::equal(some.begin(), some.end(), all.begin() + first * row))
              << c.name << ", " << rows << " rows from " << first;
        }
    }
}

TEST(RowBits, DoNotDependOnThreadsOrInstructionSet) {
  for (auto dtype : kDtypes)
    for (const RowCase& c : row_cases(dtype)) {
      // Enough rows for threads to be used.
      const auto x = random_rows(2000, 192, dtype, 10, 10.0f);
      const auto once = bytes_of(c.run(x, 0));
      with_every_isa([&] {
        for (int threads : {1, 2})
          with_threads(threads, [&] {
            ASSERT_EQ(bytes_of(c.run(x, 0)), once) << c.name;
          });
      });
    }
}

TEST(Rows, NeedNotBeContiguous) {
  for (auto dtype : kDtypes)
    for (const RowCase& c : row_cases(dtype)) {
      const auto x = random_rows(5, 192, dtype, 11);
      const auto want = bytes_of(c.run(x, 0));
      const auto wide = mx::concatenate({x, x, x}, 1);
      EXPECT_EQ(bytes_of(c.run(mx::slice(wide, {0, 192}, {5, 384}), 0)), want);
      const auto turned = mx::contiguous(mx::transpose(x));
      EXPECT_EQ(bytes_of(c.run(mx::transpose(turned), 0)), want);
    }
}

TEST(Rows, MayBeNone) {
  for (const RowCase& c : row_cases(mx::float32)) {
    const array none(std::vector<float>().begin(), mx::Shape{0, 192},
                     mx::float32);
    const auto out = c.run(none, 0);
    EXPECT_EQ(out.shape(), (mx::Shape{0, 192})) << c.name;
    EXPECT_EQ(values_of(out).size(), 0u) << c.name;
  }
}

TEST(Rows, RefuseWhatDoesNotFit) {
  const auto x = random_rows(2, 16, mx::float32, 12);
  const auto y = random_rows(2, 17, mx::float32, 12);
  const auto ints = mx::astype(x, mx::int32);
  const auto weight = make_array(random_floats(17, 1), {17});
  EXPECT_THROW(rms_norm(x, weight, 1e-5f), std::invalid_argument);
  EXPECT_THROW(rms_norm(ints, mx::astype(weight, mx::int32), 1),
               std::invalid_argument);
  EXPECT_THROW(swiglu(x, y), std::invalid_argument);
  EXPECT_THROW(kernels::add(x, mx::astype(x, mx::bfloat16)),
               std::invalid_argument);
  EXPECT_THROW(kernels::add(ints, ints), std::invalid_argument);
  const auto table = table_at(0, 2, 4);
  EXPECT_THROW(rope(x, table.cos, table.sin, {1, 16, 10, false}),
               std::invalid_argument);
  EXPECT_THROW(rope(y, table.cos, table.sin, {1, 16, 8, false}),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
