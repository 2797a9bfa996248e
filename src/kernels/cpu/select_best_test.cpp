#include "kernels/cpu/select_best.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/test_support.h"

namespace reprise::kernels::cpu {
namespace {

using Places = std::vector<std::int32_t>;

Places best(const std::vector<float>& scores, int keep) {
  return select_best(scores.data(), static_cast<int>(scores.size()), keep);
}

TEST(SelectBest, IsWhatAStableSortPutsFirst) {
  for (int count : {1, 2, 7, 64, 1000}) {
    auto scores = test_support::random_floats(count, 3);
    for (float& x : scores) x = std::floor(x * 8);  // many equal ones
    Places all(count);
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(),
                     [&](int a, int b) { return scores[a] > scores[b]; });
    for (int keep : {1, 2, 5, 63, 64, 999, 2000}) {
      Places want(all.begin(), all.begin() + std::min(keep, count));
      std::sort(want.begin(), want.end());
      EXPECT_EQ(best(scores, keep), want) << keep << " of " << count;
    }
  }
}

TEST(SelectBest, TakesTheEarlierOfEqualOnes) {
  EXPECT_EQ(best({1, 2, 1, 2, 1}, 3), (Places{0, 1, 3}));
  EXPECT_EQ(best({0.0f, -0.0f, 0.0f, -0.0f}, 2), (Places{0, 1}));
  EXPECT_EQ(best({-3, -1, -2, -1}, 2), (Places{1, 3}));
}

TEST(SelectBest, AtTheEndsOfTheNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(best({-kInf, 0, kInf, 1e38f}, 2), (Places{2, 3}));
  EXPECT_EQ(best({kInf, nan, -nan, 1}, 2), (Places{1, 2}));
  EXPECT_EQ(best({}, 2), Places{});
}

}  // namespace
}  // namespace reprise::kernels::cpu
