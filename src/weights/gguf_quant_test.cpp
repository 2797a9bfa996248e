#include "weights/gguf_quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace reprise {
namespace {

// A float16 from its bits, by IEEE 754's definition.
float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const float size = exponent == 31 ? fraction == 0 ? HUGE_VALF : NAN
                     : exponent == 0
                         ? std::ldexp(float(fraction), -24)
                         : std::ldexp(float(1024 + fraction), exponent - 25);
  return bits & 0x8000 ? -size : size;
}

std::uint16_t half_at(const std::string& bytes, std::size_t at) {
  std::uint16_t bits;
  std::memcpy(&bits, &bytes[at], sizeof bits);
  return bits;
}

// Element k of a block as ggml's dequantize_row_* has it.
float ggml_value(GgufType type, const std::string& block, int k) {
  const auto field = [&](int at) { return std::uint8_t(block[at]); };
  const float d = half_value(half_at(block, 0));
  if (type == GgufType::q8_0)
    return static_cast<float>(std::int8_t(field(2 + k))) * d;
  const int base = type == GgufType::q4_1 ? 4 : 2;
  const int q = k < 16 ? field(base + k) & 15 : field(base + k - 16) >> 4;
  if (type == GgufType::q4_0) return static_cast<float>(q - 8) * d;
  return static_cast<float>(q) * d + half_value(half_at(block, 2));
}

struct Repacked {
  std::vector<std::uint32_t> words;
  std::vector<std::uint16_t> half_scales, half_biases;
  std::vector<float> scales, biases;
};

// Element k of a block as MLX has it: scale * q + bias, in float32.
float affine_value(const Repacked& r, int bits, bool half, int block, int k) {
  const int at = (block * 32 + k) * bits;
  const std::uint32_t q = r.words[at / 32] >> at % 32 & ((1u << bits) - 1);
  const float scale = half ? half_value(r.half_scales[block]) : r.scales[block];
  const float bias = half ? half_value(r.half_biases[block]) : r.biases[block];
  return scale * static_cast<float>(q) + bias;
}

Repacked repack(GgufType type, const std::string& blocks, bool half) {
  const std::size_t count = blocks.size() / gguf_type_info(type)->bytes;
  Repacked out{std::vector<std::uint32_t>(count * gguf_quant_bits(type)),
               std::vector<std::uint16_t>(count),
               std::vector<std::uint16_t>(count), std::vector<float>(count),
               std::vector<float>(count)};
  GgufRepackTarget target{.words = out.words.data(), .half = half};
  target.scales =
      half ? static_cast<void*>(out.half_scales.data()) : out.scales.data();
  target.biases =
      half ? static_cast<void*>(out.half_biases.data()) : out.biases.data();
  // In two pieces, as a long tensor is.
  const auto bytes = std::as_bytes(std::span(blocks));
  const std::size_t first = count / 2 * gguf_type_info(type)->bytes;
  gguf_repack(type, bytes.first(first), 0, target);
  gguf_repack(type, bytes.subspan(first), count / 2, target);
  return out;
}

std::string random_block(GgufType type, std::uint16_t scale, std::uint16_t bias,
                         std::mt19937& random) {
  std::string block(gguf_type_info(type)->bytes, '\0');
  for (char& c : block) c = static_cast<char>(random());
  std::memcpy(&block[0], &scale, 2);
  if (type == GgufType::q4_1) std::memcpy(&block[2], &bias, 2);
  return block;
}

class GgufQuantTest : public ::testing::TestWithParam<GgufType> {};

// Every finite float16 as the scale of a block.
TEST_P(GgufQuantTest, EveryScaleIsExact) {
  const GgufType type = GetParam();
  const int bits = gguf_quant_bits(type);
  std::mt19937 random(1);
  int as_half = 0;
  for (std::uint32_t scale = 0; scale < 0x10000; ++scale) {
    if ((scale >> 10 & 31) == 31) continue;  // infinities and NaNs
    const auto bias = static_cast<std::uint16_t>(random() & 0xbbff);
    const std::string block =
        random_block(type, static_cast<std::uint16_t>(scale), bias, random);
    const bool half =
        gguf_biases_fit_half(type, std::as_bytes(std::span(block)));
    as_half += half;
    const Repacked out = repack(type, block, half);
    for (int k = 0; k < 32; ++k) {
      const float want = ggml_value(type, block, k);
      const float got = affine_value(out, bits, half, 0, k);
      // == and not bits: 0 d is -0 in ggml when d is negative.
      ASSERT_EQ(got, want) << "scale " << scale << " element " << k;
      // Float32 is exact for every scale.
    }
    if (half && scale % 16 == 0) {
      const Repacked wide = repack(type, block, false);
      for (int k = 0; k < 32; ++k)
        ASSERT_EQ(affine_value(wide, bits, false, 0, k),
                  ggml_value(type, block, k));
    }
  }
  // 8 d and 128 d leave float16 in the last 3 and 7 of its 31 exponents.
  const int lost = type == GgufType::q4_1 ? 0 : type == GgufType::q4_0 ? 3 : 7;
  EXPECT_EQ(as_half, 2 * (31 - lost) * 1024);
}

TEST_P(GgufQuantTest, ManyBlocks) {
  const GgufType type = GetParam();
  std::mt19937 random(2);
  std::string blocks;
  for (int i = 0; i < 101; ++i)
    blocks += random_block(type, 0x2000 + i, 0xa000 + 3 * i, random);
  const Repacked out = repack(type, blocks, true);
  const std::size_t bytes = gguf_type_info(type)->bytes;
  for (int i = 0; i < 101; ++i)
    for (int k = 0; k < 32; ++k) {
      const float want = ggml_value(type, blocks.substr(i * bytes, bytes), k);
      const float got = affine_value(out, gguf_quant_bits(type), true, i, k);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got),
                std::bit_cast<std::uint32_t>(want))
          << "block " << i << " element " << k;
    }
}

TEST_P(GgufQuantTest, OneBigScaleAmongMany) {
  const GgufType type = GetParam();
  std::mt19937 random(3);
  std::string blocks;
  for (int i = 0; i < 5; ++i)
    blocks += random_block(type, i == 3 ? 0x7bff : 0x3c00, 0, random);
  EXPECT_EQ(gguf_biases_fit_half(type, std::as_bytes(std::span(blocks))),
            type == GgufType::q4_1);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufQuantTest,
                         ::testing::Values(GgufType::q4_0, GgufType::q4_1,
                                           GgufType::q8_0),
                         [](const auto& info) {
                           return std::string(gguf_type_info(info.param)->name);
                         });

TEST(GgufQuantBits, OnlyThreeTypes) {
  int served = 0;
  for (std::uint32_t type = 0; type < 64; ++type)
    served += gguf_quant_bits(static_cast<GgufType>(type)) > 0;
  EXPECT_EQ(served, 3);
}

}  // namespace
}  // namespace reprise
