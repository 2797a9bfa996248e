#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

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
