#include "weights/gguf_quant.h"

#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace reprise {
namespace {

constexpr std::uint16_t kHalfSign = 0x8000;
constexpr int kHalfExponentMax = 31;  // infinities and NaNs

std::uint16_t load_half(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// -h * 2^power in float16, or nothing past its largest finite number.
std::optional<std::uint16_t> negated_times_power(std::uint16_t h, int power) {
  const auto sign = static_cast<std::uint16_t>(~h & kHalfSign);
  int exponent = h >> 10 & 31;
  int fraction = h & 0x3ff;
  if (exponent == kHalfExponentMax)
    return static_cast<std::uint16_t>(h ^ kHalfSign);
  // A subnormal grows by shifting until its top bit becomes the implied one.
  while (exponent == 0 && power > 0) {
    fraction <<= 1;
    --power;
    if (fraction & 0x400) {
      fraction &= 0x3ff;
      exponent = 1;
    }
  }
  if (exponent > 0) exponent += power;
  if (exponent >= kHalfExponentMax) return std::nullopt;
  return static_cast<std::uint16_t>(sign | exponent << 10 | fraction);
}

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h} >> 15 << 31;
  const std::uint32_t exponent = h >> 10 & 31;
  const std::uint32_t fraction = h & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: exact, 2^-24 units
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide =
      exponent == kHalfExponentMax ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// By which power of two the scale gives the bias; Q4_1 stores its own.
int bias_power(GgufType type) {
  return type == GgufType::q4_0 ? 3 : 7;
}

// Fields of a 4-bit block: byte j has element j below, element j + 16 above.
// MLX wants element 2j below and 2j + 1 above.
void repack_nibbles(const std::byte* fields, std::byte* out) {
  const auto low = [&](int k) { return fields[k] & std::byte{15}; };
  const auto high = [&](int k) { return fields[k] >> 4; };
  for (int j = 0; j < 8; ++j) out[j] = low(2 * j) | low(2 * j + 1) << 4;
  for (int j = 0; j < 8; ++j) out[j + 8] = high(2 * j) | high(2 * j + 1) << 4;
}

// -128 .. 127 become 0 .. 255.
void repack_bytes(const std::byte* fields, std::byte* out) {
  for (int k = 0; k < kGgufGroupSize; ++k) out[k] = fields[k] ^ std::byte{0x80};
}

void store(void* list, std::size_t index, std::uint16_t half, bool as_half) {
  if (as_half)
    static_cast<std::uint16_t*>(list)[index] = half;
  else
    static_cast<float*>(list)[index] = half_to_float(half);
}

std::size_t block_bytes(GgufType type, std::span<const std::byte> blocks) {
  CHECK(gguf_quant_bits(type) > 0, "type {}", static_cast<int>(type));
  const std::size_t bytes = gguf_type_info(type)->bytes;
  CHECK(blocks.size() % bytes == 0, "{} bytes in blocks of {}", blocks.size(),
        bytes);
  return bytes;
}

}  // namespace

int gguf_quant_bits(GgufType type) {
  switch (type) {
    case GgufType::q4_0:
    case GgufType::q4_1:
      return 4;
    case GgufType::q8_0:
      return 8;
    default:
      return 0;
  }
}

bool gguf_biases_fit_half(GgufType type, std::span<const std::byte> blocks) {
  const std::size_t bytes = block_bytes(type, blocks);
  if (type == GgufType::q4_1) return true;
  for (std::size_t at = 0; at < blocks.size(); at += bytes)
    if (!negated_times_power(load_half(&blocks[at]), bias_power(type)))
      return false;
  return true;
}

void gguf_repack(GgufType type, std::span<const std::byte> blocks,
                 std::size_t first_block, const GgufRepackTarget& target) {
  const std::size_t bytes = block_bytes(type, blocks);
  const bool has_bias = type == GgufType::q4_1;
  const std::size_t field_bytes = gguf_quant_bits(type) * kGgufGroupSize / 8;
  auto* out = reinterpret_cast<std::byte*>(target.words);
  for (std::size_t i = 0; i < blocks.size() / bytes; ++i) {
    const std::byte* block = &blocks[i * bytes];
    const std::byte* fields = block + (has_bias ? 4 : 2);
    const std::size_t to = first_block + i;
    if (type == GgufType::q8_0)
      repack_bytes(fields, out + to * field_bytes);
    else
      repack_nibbles(fields, out + to * field_bytes);

    const std::uint16_t scale = load_half(block);
    store(target.scales, to, scale, target.half);
    if (has_bias) {
      store(target.biases, to, load_half(block + 2), target.half);
    } else if (target.half) {
      const auto bias = negated_times_power(scale, bias_power(type));
      CHECK(bias, "scale {:#x} of block {}", scale, to);
      store(target.biases, to, *bias, true);
    } else {
      static_cast<float*>(target.biases)[to] =
          -half_to_float(scale) * static_cast<float>(1 << bias_power(type));
    }
  }
}

}  // namespace reprise
