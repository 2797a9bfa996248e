#include "kernels/cpu/vec16_probe.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/isa.h"

namespace reprise::kernels::cpu {
namespace {

Vec16Outputs probe(Isa isa, const Vec16Inputs& in) {
  const Isa before = current_isa();
  set_isa(isa);
  Vec16Outputs out{};
  REPRISE_PICK_ISA(probe_vec16)(in, out);
  set_isa(before);
  return out;
}

// Two floats are the same bits, or both NaN: which NaN is not promised.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

void expect_same(const Vec16Outputs& a, const Vec16Outputs& b) {
  for (int op = 0; op < kVec16Values; ++op)
    for (int i = 0; i < 16; ++i)
      ASSERT_TRUE(same(a.values[op][i], b.values[op][i]))
          << "operation " << op << " lane " << i << ": " << a.values[op][i]
          << " and " << b.values[op][i];
  for (int op = 0; op < 6; ++op)
    ASSERT_TRUE(same(a.sums[op], b.sums[op]))
        << "sum " << op << ": " << a.sums[op] << " and " << b.sums[op];
  ASSERT_EQ(std::memcmp(a.halves, b.halves, sizeof(a.halves)), 0);
}

class Vec16Random {
 public:
  // Ordinary numbers; one in eight has any bits at all: NaN, infinite, tiny.
  float number() {
    const auto bits = static_cast<std::uint32_t>(engine_());
    if (engine_() % 8 == 0) return std::bit_cast<float>(bits);
    return std::ldexp(static_cast<float>(bits) / 4294967296.0f - 0.5f,
                      static_cast<int>(engine_() % 24) - 12);
  }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_{7};
};

TEST(Vec16, AllInstructionSetsGiveTheSameBits) {
  Vec16Random random;
  for (int round = 0; round < 20000; ++round) {
    Vec16Inputs in;
    for (int i = 0; i < 16; ++i) {
      in.a[i] = random.number();
      in.b[i] = random.number();
      in.c[i] = std::fmod(std::abs(random.number()), 127.0f);
      if (!std::isfinite(in.c[i])) in.c[i] = 1;
      in.halves[i] = static_cast<std::uint16_t>(random.bits());
      in.bytes[i] = static_cast<std::uint8_t>(random.bits());
    }
    in.first = static_cast<int>(random.bits() % 17);
    const Vec16Outputs expected = probe(Isa::generic, in);
    for (Isa isa : available_isas()) {
      SCOPED_TRACE(isa_name(isa));
      const Vec16Outputs out = probe(isa, in);
      expect_same(out, expected);
      if (HasFatalFailure()) return;
    }
  }
}

// All 65,536 of each, there and back: exact one way, unchanged the other.
TEST(Vec16, HalvesSurviveTheRoundTrip) {
  for (Isa isa : available_isas()) {
    for (int base = 0; base < 65536; base += 16) {
      Vec16Inputs in{};
      for (int i = 0; i < 16; ++i)
        in.halves[i] = static_cast<std::uint16_t>(base + i);
      const Vec16Outputs out = probe(isa, in);
      for (int type = 0; type < 2; ++type) {
        Vec16Inputs back{};
        std::memcpy(back.a, out.values[2 + type], sizeof(back.a));
        const Vec16Outputs again = probe(isa, back);
        for (int i = 0; i < 16; ++i) {
          if (std::isnan(back.a[i])) continue;
          ASSERT_EQ(again.halves[type][i], in.halves[i]) << isa_name(isa);
        }
      }
    }
  }
}

// The generic one is the reference of the others; this is its own.
TEST(Vec16, GenericIsRight) {
  Vec16Inputs in{};
  for (int i = 0; i < 16; ++i) {
    in.a[i] = static_cast<float>(i) + 0.5f;
    in.b[i] = 2;
    in.c[i] = 100;
    in.bytes[i] =
        static_cast<std::uint8_t>(0x10 * ((2 * i + 1) % 16) + 2 * i % 16);
  }
  in.halves[0] = 0x3c01;  // float16: 1 + 2^-10
  in.halves[1] = 0x0001;  // float16: 2^-24
  in.first = 3;
  const Vec16Outputs out = probe(Isa::generic, in);
  EXPECT_EQ(out.values[3][0], 1.0009765625f);
  EXPECT_EQ(out.values[3][1], 0x1p-24f);
  EXPECT_EQ(out.values[7][2], 2.5f);
  EXPECT_EQ(out.values[7][3], 0.0f);
  EXPECT_EQ(out.values[8][3], 107.0f);
  EXPECT_EQ(out.values[17][1], 2.0f);  // 1.5, to even
  EXPECT_EQ(out.values[17][2], 2.0f);  // 2.5, to even
  EXPECT_EQ(out.values[18][1], 6.0f);  // 1.5 * 2^2
  EXPECT_EQ(out.sums[0], 128.0f);
  EXPECT_EQ(out.sums[1], 15.5f);
  EXPECT_EQ(out.sums[5], 160.0f);
  // Nibbles count 0, 1, 2, ... from the lowest bit on.
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(out.values[21][i], 0.5f * static_cast<float>(i) + 2.0f);
}

// 1 + 2^-9 lies between two bfloat16 and 1 + 2^-12 between two float16: ties
// go to the even one; a little more goes up.
TEST(Vec16, RoundsToNearestEven) {
  for (Isa isa : available_isas()) {
    Vec16Inputs in{};
    in.a[0] = 1 + 0x1p-8f;
    in.a[1] = 1 + 0x3p-8f;
    in.a[2] = 1 + 0x1p-8f + 0x1p-20f;
    in.a[3] = 1 + 0x1p-11f;
    in.a[4] = 1 + 0x3p-11f;
    in.a[5] = 65520.0f;
    const Vec16Outputs out = probe(isa, in);
    EXPECT_EQ(out.halves[0][0], 0x3f80) << isa_name(isa);
    EXPECT_EQ(out.halves[0][1], 0x3f82) << isa_name(isa);
    EXPECT_EQ(out.halves[0][2], 0x3f81) << isa_name(isa);
    EXPECT_EQ(out.halves[1][3], 0x3c00) << isa_name(isa);
    EXPECT_EQ(out.halves[1][4], 0x3c02) << isa_name(isa);
    EXPECT_EQ(out.halves[1][5], 0x7c00) << isa_name(isa);
  }
}

// A summation order that only the documented tree gives.
TEST(Vec16, SumsInTheFixedTree) {
  Vec16Inputs in{};
  const float big = 0x1p24f;
  in.a[0] = big;
  in.a[8] = 1;  // lost in big + 1
  in.a[1] = -big;
  in.a[9] = 1;  // kept: -big + 1
  for (Isa isa : available_isas())
    EXPECT_EQ(probe(isa, in).sums[0], 1.0f) << isa_name(isa);
}

}  // namespace
}  // namespace reprise::kernels::cpu
