// Where sixteen consecutive fields of a little-endian bit stream lie, as
// tables for byte shuffles: MLX packs quantized weights this way, and fields
// of 3, 5 and 6 bits cross byte borders. Any four neighbours fit into 32 bits
// read at a byte border.
#pragma once

#include <cstdint>

namespace reprise::kernels::cpu {

struct FieldTable {
  alignas(64) std::uint8_t byte[64];    // of each lane's 32 bits, in 16 bytes
  alignas(64) std::uint32_t shift[16];  // of the field in these 32 bits
};

// Both lanes and quartets count from the first of the sixteen fields.
consteval FieldTable field_table(int bits) {
  FieldTable table{};
  for (int lane = 0; lane < 16; ++lane) {
    const int quartet_bit = lane / 4 * 4 * bits;
    for (int i = 0; i < 4; ++i)
      table.byte[4 * lane + i] = static_cast<std::uint8_t>(quartet_bit / 8 + i);
    table.shift[lane] =
        static_cast<std::uint32_t>(quartet_bit % 8 + lane % 4 * bits);
  }
  return table;
}

template <int kBits>
inline constexpr FieldTable kFields = field_table(kBits);

}  // namespace reprise::kernels::cpu
