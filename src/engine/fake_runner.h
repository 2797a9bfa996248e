// A model for tests whose state can be caught lying. Every pool row holds the
// token and the position that were written there; run() reads each row's
// whole history back through its block table and throws if a position is
// wrong, a row was never committed, or a token differs from what this request
// is known to have. The logits are a function of the whole history, so a
// reply is the same alone, in a crowd, cached or not, or state was mixed up.
//
// All that a step does not promise to keep is poisoned: rows past the
// committed length before the step writes, and all rows that a failed step
// wrote. Not thread-safe, but for the options, which tests may change between
// steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "engine/runner.h"

namespace reprise {

struct FakeRunnerOptions {
  int vocabulary = 32;
  int context_tokens = 4096;
  int block_count = 64;
  // What a row says after its history; empty: logits_after.
  std::function<std::vector<float>(std::span<const TokenId>)> logits_of = {};
  int slot_count = 0;  // more: a model that keeps snapshots

  // Blocks whose rows are not numbers, as a stray write would leave them:
  // logits of whoever reads one are NaN. One that is written anew is sound.
  std::set<BlockId> poisoned_blocks;

  // Faults, each an exception or NaN logits; empty: none.
  std::function<bool(const StepPlan&)> throws_at_step;
  std::function<bool(const StepRow&)> throws_at_row;
  std::function<bool(const StepRow&)> nan_logits;
  std::chrono::milliseconds latency{0};
  std::function<void()> during_step;
};

// A broken promise of the caller, told from an injected failure.
class FakeRunnerLie : public std::logic_error {
  using std::logic_error::logic_error;
};

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(FakeRunnerOptions options);

  RunnerInfo info() const override;
  StepLogits run(const StepPlan& plan) override;

  FakeRunnerOptions& options() { return options_; }

  // Tells the runner the whole prompt of a request: checked at each step.
  void expect(RequestId id, std::vector<TokenId> prompt);

  std::size_t tokens_evaluated() const { return tokens_evaluated_; }
  std::size_t rows_copied() const { return rows_copied_; }

  // The logits after `history`, and the reply that `request` has when nothing
  // else ever ran.
  static std::vector<float> logits_after(std::span<const TokenId> history,
                                         int vocabulary);
  static std::vector<TokenId> reply_alone(const Request& request,
                                          int vocabulary);

 private:
  struct PoolRow {
    TokenId token = -1;
    int position = -1;  // -1: poison
  };

  // What a snapshot says: the state of exactly these tokens.
  struct Slot {
    int length = -1;  // -1: poison
    std::uint64_t history = 0;
  };

  void check_slots(const StepPlan& plan) const;
  void read_slot(const StepRow& row, std::span<const TokenId> history) const;

  PoolRow& at(const std::vector<BlockId>& blocks, int position);
  void check_plan(const StepPlan& plan) const;
  void copy_rows(const BlockCopy& copy);
  void poison_from(const StepRow& row, int position);
  std::vector<TokenId> read_history(const StepRow& row);
  bool reads_poison(const StepRow& row) const;
  void write(const StepRow& row);

  FakeRunnerOptions options_;
  std::vector<PoolRow> pool_;  // [block_count * 256]
  std::vector<Slot> slots_;
  std::map<RequestId, std::vector<TokenId>> known_;
  std::size_t tokens_evaluated_ = 0;
  std::size_t rows_copied_ = 0;
};

}  // namespace reprise
