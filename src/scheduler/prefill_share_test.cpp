#include "scheduler/prefill_share.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(QuantumEnd, IsAnAbsoluteMultipleOrTheEnd) {
  EXPECT_EQ(quantum_end(0, 1000), 64);
  EXPECT_EQ(quantum_end(63, 1000), 64);
  EXPECT_EQ(quantum_end(64, 1000), 128);
  EXPECT_EQ(quantum_end(70, 100), 100);
}

TEST(PrefillShare, OneTakesAllConsecutiveQuanta) {
  std::uint64_t turn = 0;
  EXPECT_EQ(share_prefill({{.length = 10, .goal = 3000}}, 512, turn),
            (std::vector{512}));
  EXPECT_EQ(share_prefill({{.length = 10, .goal = 300}}, 512, turn),
            (std::vector{300}));
}

TEST(PrefillShare, TheOldestGetsHalfAndTheOthersTakeTurns) {
  std::uint64_t turn = 0;
  const std::vector<PrefillDemand> demands = {{.length = 0, .goal = 30000},
                                              {.length = 0, .goal = 640},
                                              {.length = 64, .goal = 640}};
  EXPECT_EQ(share_prefill(demands, 512, turn), (std::vector{256, 128, 192}));
}

TEST(PrefillShare, ABudgetOfOneQuantumGoesRound) {
  std::uint64_t turn = 0;
  std::vector<PrefillDemand> demands = {{.length = 0, .goal = 30000},
                                        {.length = 0, .goal = 640},
                                        {.length = 0, .goal = 640}};
  for (int step = 0; step < 8; ++step) {
    const auto ends = share_prefill(demands, 64, turn);
    for (std::size_t i = 0; i < ends.size(); ++i) demands[i].length = ends[i];
  }
  EXPECT_EQ(demands[0].length, 256);
  EXPECT_EQ(demands[1].length, 128);
  EXPECT_EQ(demands[2].length, 128);
}

TEST(PrefillShare, WhatOneDoesNotNeedTheOthersGet) {
  std::uint64_t turn = 0;
  EXPECT_EQ(
      share_prefill({{.length = 0, .goal = 70}, {.length = 0, .goal = 3000}},
                    512, turn),
      (std::vector{70, 384}));
}

TEST(PrefillShare, GivesAQuantumHoweverSmallTheBudget) {
  std::uint64_t turn = 0;
  EXPECT_EQ(share_prefill({{.length = 0, .goal = 3000}}, 1, turn),
            (std::vector{64}));
}

}  // namespace
}  // namespace reprise
