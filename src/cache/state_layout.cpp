#include "cache/state_layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace reprise {

std::size_t StateFamily::plain_row_bytes() const {
  return static_cast<std::size_t>(row_elements) * size_of(dtype);
}

std::size_t StateFamily::row_bytes() const {
  if (!quantized) return plain_row_bytes();
  return static_cast<std::size_t>(
      kernels::quantized_row_bytes(row_elements, dtype, quantized->codec));
}

std::size_t StateFamily::bytes_of(RowRange rows) const {
  // Only families with a row a position are quantized.
  const int plain_end =
      quantized ? std::clamp(quantized->from, rows.begin, rows.end) : rows.end;
  return static_cast<std::size_t>(plain_end - rows.begin) * plain_row_bytes() +
         static_cast<std::size_t>(rows.end - plain_end) * row_bytes();
}

StateLayout quantized_layout(StateLayout layout,
                             const RowQuantization& quantization) {
  for (LayerState& layer : layout)
    for (StateFamily& family : layer)
      if (family.head_dim > 0 &&
          kernels::can_quantize(family.row_elements / family.head_dim,
                                family.head_dim, quantization.codec))
        family.quantized = quantization;
  return layout;
}

std::size_t block_bytes(const StateLayout& layout) {
  std::size_t bytes = 0;
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer) {
      const bool both = family.quantized && family.quantized->from > 0;
      bytes += (family.row_bytes() + (both ? family.plain_row_bytes() : 0)) *
               static_cast<std::size_t>(rows_per_block(family.growth));
    }
  return bytes;
}

std::size_t state_bytes(const LayerState& layer, int tokens) {
  std::size_t bytes = 0;
  for (const StateFamily& family : layer)
    bytes += family.bytes_of(rows_at(family.growth, tokens));
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

std::size_t snapshot_bytes(const StateLayout& layout) {
  std::size_t bytes = 0;
  for (const LayerState& layer : layout) bytes += snapshot_bytes(layer);
  return bytes;
}

PoolSizes share_out(const StateLayout& layout, std::size_t bytes,
                    int parallel) {
  // A pool's rows are counted in 32 bits by MLX's shapes.
  constexpr std::size_t kMax =
      std::numeric_limits<std::int32_t>::max() / kBlockTokens;
  // A model of recurrences alone has blocks for the tokens' sake.
  const std::size_t block = std::max<std::size_t>(block_bytes(layout), 1);
  const std::size_t slot = snapshot_bytes(layout);
  const auto blocks_in = [&](std::size_t room) {
    return static_cast<int>(std::min(room / block, kMax));
  };
  if (slot == 0) return {.blocks = blocks_in(bytes), .slots = 0};
  const auto working = static_cast<std::size_t>(2 * parallel);
  if (bytes < working * slot) return {};
  const std::size_t rest = bytes - working * slot;
  const std::size_t kept = std::min(rest / 2 / slot, kMax);
  return {.blocks = blocks_in(rest - kept * slot),
          .slots = static_cast<int>(working + kept)};
}

}  // namespace reprise
