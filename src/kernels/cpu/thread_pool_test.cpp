#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace reprise::kernels::cpu {
namespace {

class ThreadPool : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(before_); }
  const int before_ = thread_count();
};

TEST_P(ThreadPool, CallsEachIndexOnce) {
  for (int count : {0, 1, 2, 3, 64, 1000}) {
    // Plain ints: whoever runs a loop must see what bodies wrote.
    std::vector<int> calls(count, 0);
    for (int loop = 1; loop <= 50; ++loop) {
      parallel_for(count, [&](int i) { ++calls.at(i); });
      for (int i = 0; i < count; ++i) ASSERT_EQ(calls[i], loop) << i;
    }
  }
}

TEST_P(ThreadPool, WakesSleepers) {
  std::atomic<int> calls = 0;
  for (int loop = 0; loop < 20; ++loop) {
    parallel_for(8, [&](int) { ++calls; });
    // Sometimes shorter, sometimes longer than the workers spin.
    std::this_thread::sleep_for(std::chrono::microseconds(10 * loop));
  }
  EXPECT_EQ(calls, 160);
}

TEST_P(ThreadPool, RethrowsAfterAllHaveEnded) {
  for (int loop = 0; loop < 20; ++loop) {
    auto calls = std::make_unique<std::atomic<int>>(0);
    const auto body = [&](int i) {
      ++*calls;
      if (i % 3 == 1) throw std::runtime_error("body " + std::to_string(i));
    };
    EXPECT_THROW(parallel_for(30, body), std::runtime_error);
    EXPECT_EQ(*calls, 30);
  }
  std::atomic<int> calls = 0;
  parallel_for(30, [&](int) { ++calls; });
  EXPECT_EQ(calls, 30);
}

TEST_P(ThreadPool, SeveralCallers) {
  constexpr int kCallers = 3, kLoops = 200, kCount = 7;
  std::vector<std::vector<int>> calls(kCallers, std::vector<int>(kCount));
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&, c] {
      for (int loop = 0; loop < kLoops; ++loop)
        parallel_for(kCount, [&](int i) { ++calls[c][i]; });
    });
  for (auto& caller : callers) caller.join();
  for (const auto& mine : calls)
    EXPECT_EQ(mine, std::vector<int>(kCount, kLoops));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPool, testing::Values(1, 2, 5));

TEST(ThreadPool, UsesSeveralThreadsAtOnce) {
  const int before = thread_count();
  set_thread_count(2);
  // Each body waits for the other one: one thread alone would never end.
  std::atomic<int> here = 0;
  parallel_for(2, [&](int) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  set_thread_count(before);
  EXPECT_EQ(here, 2);
}

TEST(ThreadPoolDeathTest, RefusesALoopInsideALoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        set_thread_count(2);
        parallel_for(2, [](int) { parallel_for(2, [](int) {}); });
      },
      "parallel_for inside");
}

}  // namespace
}  // namespace reprise::kernels::cpu
