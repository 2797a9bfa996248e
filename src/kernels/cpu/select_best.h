// The best of some scores.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::kernels::cpu {

// The places of the `keep` largest of `count` scores, ascending; of equal ones
// the earlier. What is not a number counts as larger than all.
std::vector<std::int32_t> select_best(const float* scores, int count, int keep);

}  // namespace reprise::kernels::cpu
