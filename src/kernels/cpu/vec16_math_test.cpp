#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/vec16_math_probe.h"
#include "kernels/test_support.h"

namespace reprise::kernels::cpu {
namespace {

using test_support::with_every_isa;
using Lanes = std::array<float, 16>;

Lanes exp_of(const Lanes& x) {
  Lanes out;
  REPRISE_PICK_ISA(probe_exp)(x.data(), out.data());
  return out;
}

Lanes sixteen_from(float begin, float step) {
  Lanes x;
  for (int i = 0; i < 16; ++i) x[i] = begin + step * static_cast<float>(i);
  return x;
}

TEST(Vec16Exp, IsWithinTwoUlp) {
  with_every_isa([] {
    double worst = 0;
    for (float begin = -87.3f; begin < 88.2f; begin += 0.0317f) {
      const Lanes x = sixteen_from(begin, 0.00191f);
      const Lanes y = exp_of(x);
      for (int i = 0; i < 16; ++i) {
        if (x[i] > 88.3f) continue;
        const double exact = std::exp(double{x[i]});
        const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, std::abs(y[i] - exact) / ulp);
      }
    }
    EXPECT_LT(worst, 2.0);
  });
}

TEST(Vec16Exp, HasTheSameBitsEverywhere) {
  std::vector<std::uint32_t> first;
  with_every_isa([&] {
    std::vector<std::uint32_t> bits;
    for (float begin = -100.0f; begin < 100.0f; begin += 0.31f)
      for (float y : exp_of(sixteen_from(begin, 0.0193f)))
        bits.push_back(std::bit_cast<std::uint32_t>(y));
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first);
  });
}

TEST(Vec16Exp, AtItsEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  with_every_isa([] {
    Lanes x = {0.0f, -0.0f, -kInfinity, kInfinity, -1e30f, 1e30f};
    x[6] = std::numeric_limits<float>::quiet_NaN();
    const Lanes y = exp_of(x);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_EQ(y[2], y[4]);
    EXPECT_LT(y[2], 1.3e-38f);
    EXPECT_GT(y[2], 0.0f);
    EXPECT_EQ(y[3], y[5]);
    EXPECT_GT(y[3], 2e38f);
    EXPECT_TRUE(std::isfinite(y[3]));
    EXPECT_TRUE(std::isnan(y[6]));
  });
}

// The others by name, each with its exact value and its bound in units of the
// last place.
struct Function {
  const char* name;
  void (*run)(const float* in, float* out);
  double (*exact)(double x);
  double ulps;
  bool cancels = false;  // units of x / 2 then
};

double exact_gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                        (x + 0.044715 * x * x * x)));
}

std::vector<Function> functions() {
  return {
      {"tanh", REPRISE_PICK_ISA(probe_tanh),
       [](double x) { return std::tanh(x); }, 3},
      {"sigmoid", REPRISE_PICK_ISA(probe_sigmoid),
       [](double x) { return 1 / (1 + std::exp(-x)); }, 3},
      {"softplus", REPRISE_PICK_ISA(probe_softplus),
       [](double x) { return std::log1p(std::exp(x)); }, 3},
      // Where tanh is near -1 the sum with 1 cancels, as in every
      // implementation.
      {"gelu", REPRISE_PICK_ISA(probe_gelu), exact_gelu, 6, true},
  };
}

template <typename F>
void for_each_sixteen(F f) {
  for (float begin = -86.0f; begin < 86.0f; begin += 0.0317f)
    f(sixteen_from(begin, 0.00191f));
  for (float begin = 1e-37f; begin < 1.0f; begin *= 1.7f) {
    f(sixteen_from(begin, begin * 0.071f));
    f(sixteen_from(-begin, begin * -0.071f));
  }
}

TEST(Vec16Activation, IsWithinItsBound) {
  with_every_isa([] {
    for (const Function& function : functions()) {
      double worst = 0;
      for_each_sixteen([&](const Lanes& x) {
        Lanes y;
        function.run(x.data(), y.data());
        for (int i = 0; i < 16; ++i) {
          const double exact = function.exact(double{x[i]});
          const double scale =
              function.cancels ? std::abs(x[i] / 2.0) : std::abs(exact);
          const double ulp =
              std::ldexp(1.0, std::ilogb(std::max(scale, 1.2e-38)) - 23);
          worst = std::max(worst, std::abs(y[i] - exact) / ulp);
        }
      });
      EXPECT_LT(worst, function.ulps) << function.name;
    }
  });
}

TEST(Vec16Activation, HasTheSameBitsEverywhere) {
  std::vector<std::uint32_t> first;
  with_every_isa([&] {
    std::vector<std::uint32_t> bits;
    for (const Function& function : functions())
      for_each_sixteen([&](const Lanes& x) {
        Lanes y;
        function.run(x.data(), y.data());
        for (float v : y) bits.push_back(std::bit_cast<std::uint32_t>(v));
      });
    if (first.empty()) first = bits;
    EXPECT_TRUE(bits == first);
  });
}

TEST(Vec16Activation, AtItsEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Lanes x = {0.0f, -kInfinity, kInfinity, -1e30f, 1e30f};
  x[5] = std::numeric_limits<float>::quiet_NaN();
  with_every_isa([&] {
    Lanes tanh, sigmoid, softplus, gelu;
    REPRISE_PICK_ISA(probe_tanh)(x.data(), tanh.data());
    REPRISE_PICK_ISA(probe_sigmoid)(x.data(), sigmoid.data());
    REPRISE_PICK_ISA(probe_softplus)(x.data(), softplus.data());
    REPRISE_PICK_ISA(probe_gelu)(x.data(), gelu.data());
    EXPECT_EQ(tanh[0], 0.0f);
    EXPECT_EQ(sigmoid[0], 0.5f);
    EXPECT_EQ(gelu[0], 0.0f);
    for (int i : {1, 3}) {
      EXPECT_EQ(tanh[i], -1.0f);
      EXPECT_LT(sigmoid[i], 1e-37f);
      EXPECT_LT(softplus[i], 1e-37f);
    }
    for (int i : {2, 4}) {
      EXPECT_EQ(tanh[i], 1.0f);
      EXPECT_EQ(sigmoid[i], 1.0f);
      EXPECT_EQ(softplus[i], x[i]);
      EXPECT_EQ(gelu[i], x[i]);
    }
    EXPECT_EQ(gelu[3], 0.0f);
    for (const Lanes& y : {tanh, sigmoid, softplus, gelu})
      EXPECT_TRUE(std::isnan(y[5]));
  });
}

TEST(Vec16Transpose, TurnsRowsIntoColumns) {
  with_every_isa([] {
    std::array<float, 256> m;
    std::iota(m.begin(), m.end(), 0.0f);
    REPRISE_PICK_ISA(probe_transpose)(m.data());
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j)
        ASSERT_EQ(m[16 * i + j], static_cast<float>(16 * j + i));
  });
}

}  // namespace
}  // namespace reprise::kernels::cpu
