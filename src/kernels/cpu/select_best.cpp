#include "kernels/cpu/select_best.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace reprise::kernels::cpu {
namespace {

// Larger keys are better: the score's bits in the order of its values, then
// the lower place.
std::uint64_t key_of(float score, std::uint32_t place) {
  std::uint32_t order = 0xffffffff;
  if (score == score) {
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // no -0
    order = bits >> 31 != 0 ? ~bits : bits | 0x80000000;
  }
  return std::uint64_t{order} << 32 | static_cast<std::uint32_t>(~place);
}

}  // namespace

std::vector<std::int32_t> select_best(const float* scores, int count,
                                      int keep) {
  std::vector<std::int32_t> best(std::min(count, keep));
  if (keep >= count) {
    std::iota(best.begin(), best.end(), 0);
    return best;
  }
  std::vector<std::uint64_t> keys(count);
  for (int i = 0; i < count; ++i)
    keys[i] = key_of(scores[i], static_cast<std::uint32_t>(i));
  std::nth_element(keys.begin(), keys.begin() + keep, keys.end(),
                   std::greater<>());
  for (int i = 0; i < keep; ++i)
    best[i] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys[i]));
  std::sort(best.begin(), best.end());
  return best;
}

}  // namespace reprise::kernels::cpu
