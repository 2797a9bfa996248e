#include "engine/stored_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/limits.h"

namespace reprise {
namespace {

void require_served(const KvQuantization& kv) {
  if (kv.bits != 4 && kv.bits != 8)
    throw std::runtime_error(fmt::format(
        "--kv-bits is {}; 8 and 4 are served, and leaving it out", kv.bits));
  if (kv.group_size != 32 && kv.group_size != 64 && kv.group_size != 128)
    throw std::runtime_error(fmt::format(
        "--kv-group-size is {}; 32, 64 and 128 are served", kv.group_size));
  if (kv.start < 0)
    throw std::runtime_error(fmt::format(
        "--quantized-kv-start is {}; it is a position, 0 or more", kv.start));
}

std::string reason(const StateFamily& family, const KvQuantization& kv) {
  if (family.row_elements % kv.group_size != 0)
    return fmt::format("a row of {} is no multiple of {}", family.row_elements,
                       kv.group_size);
  return fmt::format("a head of {} is no multiple of 16", family.head_dim);
}

}  // namespace

StateLayout stored_layout(StateLayout layout, const KvQuantization& kv) {
  if (kv.bits == 0) return layout;
  require_served(kv);
  return quantized_layout(
      std::move(layout),
      {.codec = {.bits = kv.bits, .group_size = kv.group_size},
       .from = blocks_for(kv.start) * kBlockTokens});
}

std::vector<std::string> plain_parts(const StateLayout& layout,
                                     const KvQuantization& kv) {
  std::vector<std::string> parts;
  if (kv.bits == 0) return parts;
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer) {
      if (family.head_dim == 0 || family.quantized) continue;
      auto part = fmt::format("{} ({})", family.name, reason(family, kv));
      if (std::find(parts.begin(), parts.end(), part) == parts.end())
        parts.push_back(std::move(part));
    }
  return parts;
}

}  // namespace reprise
