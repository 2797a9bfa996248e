// Appending is in place as a fact: a step over a pool of 2 GB costs what one
// over 64 MB costs, in time and in memory.
#include <gtest/gtest.h>
#include <mlx/memory.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "base/process_memory.h"
#include "engine/model_runner.h"
#include "support/sequence_driver.h"

namespace reprise {
namespace {

constexpr std::size_t kSmall = std::size_t{64} << 20;
constexpr std::size_t kLarge = std::size_t{2} << 30;

std::unique_ptr<Runner> runner_with(std::size_t state_bytes) {
  return make_model_runner(
      {.model_path = REPRISE_SOURCE_DIR "/tests/fixtures/llama/hf",
       .device = "cpu",
       .dtype = "float32",
       .state_memory_bytes = state_bytes});
}

double step_us(SequenceDriver& sequence) {
  const TokenId token = 7;
  const auto start = std::chrono::steady_clock::now();
  sequence.feed(std::span(&token, 1));
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - start)
      .count();
}

TEST(StepCost, DoesNotDependOnThePool) {
  const auto small_runner = runner_with(kSmall);
  const auto large_runner = runner_with(kLarge);
  SequenceDriver small(*small_runner), large(*large_runner);
  const std::vector<TokenId> prompt(200, 5);
  small.feed(prompt);
  large.feed(prompt);
  // The least of many, measured in turns: the machine's other work shows in
  // a mean, and in both the same way here.
  double small_us = 1e9, large_us = 1e9;
  for (int i = 0; i < 1500; ++i) {
    small_us = std::min(small_us, step_us(small));
    large_us = std::min(large_us, step_us(large));
  }
  std::printf("64 MiB: %.0f us a step, 2 GiB: %.0f us\n", small_us, large_us);
  EXPECT_LT(large_us, small_us * 1.10);
  EXPECT_LT(small_us, large_us * 1.10);
}

TEST(StepCost, AllocatesNoPool) {
  const std::size_t idle = resident_bytes();
  const auto runner = runner_with(kLarge);
  SequenceDriver sequence(*runner);
  mlx::core::reset_peak_memory();
  const std::size_t active = mlx::core::get_active_memory();
  sequence.feed(std::vector<TokenId>(300, 5));
  for (int i = 0; i < 50; ++i) step_us(sequence);
  EXPECT_LT(mlx::core::get_peak_memory(), active + (std::size_t{16} << 20));
  EXPECT_LT(resident_bytes(), idle + (std::size_t{64} << 20));
}

}  // namespace
}  // namespace reprise
