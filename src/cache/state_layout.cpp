#include "cache/state_layout.h"

namespace reprise {

std::size_t block_bytes(const StateLayout& layout) {
  std::size_t bytes = 0;
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer)
      bytes += family.row_bytes() *
               static_cast<std::size_t>(rows_per_block(family.growth));
  return bytes;
}

}  // namespace reprise
