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
  // pairs, so that neighbours in the sequence are not neighbours in memory;
  // and, where the model keeps snapshots, the two slots of that number.
  explicit SequenceDriver(Runner& runner, int first_block = 0)
      : runner_(runner), next_block_(first_block) {
    if (runner.info().slot_count > 0) next_slot_ = first_block;
  }

  // Goes on from state that is there already: `length` tokens in `blocks`, and
  // in `slot`. Further blocks are those behind the highest.
  SequenceDriver(Runner& runner, std::vector<BlockId> blocks, SlotId slot,
                 int length)
      : runner_(runner),
        blocks_(std::move(blocks)),
        length_(length),
        next_block_(0) {
    for (const BlockId id : blocks_)
      next_block_ = std::max(next_block_, (id | 1) + 1);
    if (runner.info().slot_count == 0) return;
    slot_ = length > 0 ? slot : kNoSlot;
    next_slot_ = slot ^ 1;
  }

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
                         .slot_from = slot_,
                         .slot_to = next_slot_,
                         .logits_wanted = 1});
    const StepLogits logits = runner_.run(plan);
    length_ = end;
    if (next_slot_ != kNoSlot) {
      slot_ = next_slot_;
      next_slot_ = slot_ ^ 1;
    }
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
  SlotId slot() const { return slot_; }
  const std::vector<BlockId>& blocks() const { return blocks_; }

 private:
  Runner& runner_;
  std::vector<BlockId> blocks_;
  int length_ = 0;
  int next_block_;
  SlotId slot_ = kNoSlot;
  SlotId next_slot_ = kNoSlot;
};

}  // namespace reprise
