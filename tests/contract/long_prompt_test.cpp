// A long prompt needs room for its state, not for more scratch: what a step
// computes with is bounded by the step, whatever lies before it.
#include <gtest/gtest.h>
#include <malloc.h>
#include <mlx/memory.h>

#include <fstream>
#include <random>
#include <string>

#include "base/limits.h"
#include "base/process_memory.h"
#include "engine/model_runner.h"
#include "support/fixture_models.h"
#include "support/scheduled_run.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

constexpr int kShort = 2000, kLong = 20000;

std::vector<FixtureModel> latent_models() {
  std::vector<FixtureModel> models;
  for (const FixtureModel& model : fixture_models())
    if (model.quantized.empty() && model.arch.starts_with("glm"))
      models.push_back(model);
  return models;
}

Request prompt_of(int tokens) {
  std::mt19937 random(7);
  std::uniform_int_distribution<TokenId> any(0, 480);
  Request r;
  for (int i = 0; i < tokens; ++i) r.prompt.push_back(any(random));
  r.max_tokens = 1;
  r.cache_prompt = false;
  return r;
}

// The peak of resident memory counts from now on.
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

struct Scratch {
  std::size_t arrays;    // MLX's
  std::size_t resident;  // of the process: buffers of kernels as well
};

// The peaks of one prompt above what is there before it and its state.
Scratch prefill(const std::string& model, int tokens) {
  const auto runner =
      make_model_runner({.model_path = model,
                         .device = "cpu",
                         .dtype = "float32",
                         .state_memory_bytes = std::size_t{64} << 20});
  ScheduledRun run(*runner, 1);
  mx::clear_cache();
  malloc_trim(0);
  mx::reset_peak_memory();
  forget_peak();
  const std::size_t arrays = mx::get_active_memory();
  const std::size_t resident = resident_bytes();
  const auto reply = run.run(prompt_of(tokens));
  EXPECT_EQ(reply.finish->cache.evaluated_tokens, tokens);
  const std::size_t state =
      (tokens + kBlockTokens) / kBlockTokens * runner->info().block_bytes;
  return {mx::get_peak_memory() - arrays,
          peak_resident_bytes() - resident - state};
}

class LongPrompt : public testing::TestWithParam<FixtureModel> {};

TEST_P(LongPrompt, NeedsTheScratchOfAShortOne) {
  const Scratch of_long = prefill(GetParam().path, kLong);
  const Scratch of_short = prefill(GetParam().path, kShort);
  std::printf("arrays: %zu and %zu KiB; resident: %zu and %zu KiB\n",
              of_short.arrays >> 10, of_long.arrays >> 10,
              of_short.resident >> 10, of_long.resident >> 10);
  EXPECT_GT(of_short.arrays, 0u);
  EXPECT_LE(of_long.arrays, of_short.arrays * 5 / 4);
  EXPECT_LE(of_long.resident, 4 * of_short.resident);
}

INSTANTIATE_TEST_SUITE_P(All, LongPrompt, testing::ValuesIn(latent_models()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise
