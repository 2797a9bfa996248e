// Where sixteen consecutive fields of a little-endian bit stream lie, as
// tables for byte shuffles: MLX packs quantized weights this way, and fields
// of 3, 5 and 6 bits cross byte borders. Any four neighbours fit into 32 bits
// read at a byte border.
#pragma once

#include <cstdint>

namespace reprise::kernels::cpu {

struct FieldTable {
  // Of each lane's 32 bits, counted from the first field's byte.
  alignas(64) std::uint8_t byte[64];
  // The same where lanes 8-15 see the last eight bytes only, and any sixteen
  // bytes are eight bytes twice.
  alignas(64) std::uint8_t byte_of_eight[64];
  alignas(64) std::uint32_t shift[16];  // of the field in these 32 bits
};

consteval FieldTable field_table(int bits) {
  FieldTable table{};
  for (int lane = 0; lane < 16; ++lane) {
    const int quartet_bit = lane / 4 * 4 * bits;
    for (int i = 0; i < 4; ++i) {
      const int byte = quartet_bit / 8 + i;
      const int start = lane < 8 ? 0 : 2 * bits - 8;
      table.byte[4 * lane + i] = static_cast<std::uint8_t>(byte);
      table.byte_of_eight[4 * lane + i] =
          static_cast<std::uint8_t>((byte - start) & 7);
    }
    table.shift[lane] =
        static_cast<std::uint32_t>(quartet_bit % 8 + lane % 4 * bits);
  }
  return table;
}

template <int kBits>
inline constexpr FieldTable kFields = field_table(kBits);

}  // namespace reprise::kernels::cpu
