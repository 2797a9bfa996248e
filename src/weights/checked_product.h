// Products of sizes that a file claims, where an overflow is the file's lie.
#pragma once

#include <cstdint>
#include <optional>

namespace reprise {

// The product of all factors, or nothing if it does not fit in 64 bits.
template <typename Range>
std::optional<std::uint64_t> checked_product(const Range& factors,
                                             std::uint64_t start = 1) {
  std::uint64_t product = start;
  for (const auto factor : factors)
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(factor),
                               &product))
      return std::nullopt;
  return product;
}

}  // namespace reprise
