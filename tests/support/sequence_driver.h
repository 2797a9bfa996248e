// Feeds one sequence to a runner by hand, without scheduler: for tests that
// must decide every cut themselves.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/limits.h"
#include "engine/runner.h"

namespace reprise {

class SequenceDriver {
 public:
  // Uses the runner's blocks from `first_block` on, in descending order of
  // pairs, so that neighbours in the sequence are not neighbours in memory.
  explicit SequenceDriver(Runner& runner, int first_block = 0)
      : runner_(runner), next_block_(first_block) {}

  // Evaluates the tokens in one span; logits of the last.
  std::vector<float> feed(std::span<const TokenId> tokens) {
    const int end = length_ + static_cast<int>(tokens.size());
    while (static_cast<int>(blocks_.size()) * kBlockTokens < end)
      blocks_.push_back(next_block_++ ^ 1);
    StepPlan plan;
    plan.rows.push_back({.id = 1,
                         .start = length_,
                         .tokens = {tokens.begin(), tokens.end()},
                         .blocks = blocks_,
                         .logits_wanted = 1});
    const StepLogits logits = runner_.run(plan);
    length_ = end;
    const auto row = logits.row(0);
    return {row.begin(), row.end()};
  }

  // The greedy continuation after `logits`: ids, and the logits that chose
  // each.
  struct Greedy {
    std::vector<TokenId> ids;
    std::vector<std::vector<float>> logits;
  };
  Greedy go_on(std::vector<float> logits, int count) {
    Greedy out;
    for (int i = 0; i < count; ++i) {
      const auto id = static_cast<TokenId>(
          std::max_element(logits.begin(), logits.end()) - logits.begin());
      out.ids.push_back(id);
      out.logits.push_back(logits);
      if (i + 1 < count) logits = feed(std::span(&id, 1));
    }
    return out;
  }

  int length() const { return length_; }
  const std::vector<BlockId>& blocks() const { return blocks_; }

 private:
  Runner& runner_;
  std::vector<BlockId> blocks_;
  int length_ = 0;
  int next_block_;
};

}  // namespace reprise
