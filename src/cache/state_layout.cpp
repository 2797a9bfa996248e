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

std::size_t state_bytes(const LayerState& layer, int tokens) {
  std::size_t bytes = 0;
  for (const StateFamily& family : layer)
    bytes += family.row_bytes() *
             static_cast<std::size_t>(rows_at(family.growth, tokens).size());
  return bytes;
}

std::size_t state_bytes(const StateLayout& layout, int tokens) {
  std::size_t bytes = 0;
  for (const LayerState& layer : layout) bytes += state_bytes(layer, tokens);
  return bytes;
}

double token_bytes(const LayerState& layer) {
  double bytes = 0;
  for (const StateFamily& family : layer)
    if (!std::holds_alternative<Window>(family.growth))
      bytes += static_cast<double>(family.row_bytes()) *
               rows_per_block(family.growth) / kBlockTokens;
  return bytes;
}

std::size_t snapshot_bytes(const LayerState& layer) {
  std::size_t bytes = 0;
  for (const StateFamily& family : layer)
    if (std::holds_alternative<Snapshot>(family.growth))
      bytes += family.row_bytes();
  return bytes;
}

}  // namespace reprise
