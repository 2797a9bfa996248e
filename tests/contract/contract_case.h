// What the contract tests share: every fixture as a case, prompts, the lengths
// at which state is easily wrong, and the books of what was compared.
#pragma once

#include <gtest/gtest.h>
#include <mlx/array.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/sequence_state.h"
#include "contract/model_cases.h"
#include "engine/model_runner.h"
#include "support/scheduled_run.h"
#include "support/sequence_driver.h"

namespace reprise {

// Around a quantum, around a block, and far from both.
inline constexpr int kCutLengths[] = {1, 63, 64, 65, 255, 256, 257, 811};
inline constexpr int kPromptTokens = 840;

// Rows of logits that were compared, bit by bit: main() prints it.
inline std::size_t& compared_rows() {
  static std::size_t rows = 0;
  return rows;
}

inline std::vector<TokenId> joined(std::vector<TokenId> head, int size,
                                   const std::vector<TokenId>& tail) {
  head.resize(size);
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

inline Request greedy(std::vector<TokenId> prompt, int max_tokens,
                      bool cache = true) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = 0;
  r.max_tokens = max_tokens;
  r.cache_prompt = cache;
  return r;
}

inline bool same_bits(const ScheduledRun::Reply& a,
                      const ScheduledRun::Reply& b) {
  compared_rows() += a.logits.size();
  return !a.tokens.empty() && a == b;
}

inline bool same_bits(const std::vector<float>& a,
                      const std::vector<float>& b) {
  ++compared_rows();
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline SequenceState state_of(const SequenceDriver& sequence) {
  return {.blocks = sequence.blocks(),
          .slot = sequence.slot(),
          .length = sequence.length()};
}

// NaN in rows [begin, end) of a family, however they are stored.
inline void poison_rows(const BlockPools& pools, int layer, int family,
                        std::size_t begin, std::size_t end) {
  kernels::StateRows rows = pools.rows(layer, family);
  const auto poison = [&](mlx::core::array& pool) {
    const std::size_t row = pool.nbytes() / pool.shape(0);
    std::memset(pool.data<char>() + begin * row, 0xff, (end - begin) * row);
  };
  poison(rows.plain);
  if (rows.quantized) poison(*rows.quantized);
}

class Contract : public testing::TestWithParam<ModelCase> {
 protected:
  Contract() : runner_(runner_of(GetParam())) {}

  const BlockPools& pools() const { return state_pools(*runner_); }
  // Then a prompt is resumed at the last quantum before it leaves what is
  // known, not at the token.
  bool keeps_snapshots() const { return runner_->info().slot_count > 0; }

  // From nothing, alone. Overwrites the state of every other run.
  ScheduledRun::Reply cold(Request request) {
    request.cache_prompt = false;
    ScheduledRun run(*runner_, 4);
    return run.run(std::move(request));
  }

  std::unique_ptr<Runner> runner_;
};

}  // namespace reprise
