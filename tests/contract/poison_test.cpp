// Cached state that was overwritten costs one computation: the reply that met
// it is right, and nobody meets it again.
#include "contract/contract_case.h"

namespace reprise {
namespace {

// Remembers the blocks of the row that ran last.
class Watched : public Runner {
 public:
  explicit Watched(Runner& runner) : runner_(runner) {}
  RunnerInfo info() const override { return runner_.info(); }
  StepLogits run(const StepPlan& plan) override {
    blocks = plan.rows.back().blocks;
    return runner_.run(plan);
  }
  std::vector<BlockId> blocks;

 private:
  Runner& runner_;
};

using Poison = Contract;

void poison_block(const BlockPools& pools, BlockId block) {
  for (std::size_t l = 0; l < pools.layout().size(); ++l)
    for (std::size_t f = 0; f < pools.layout()[l].size(); ++f) {
      const auto rows =
          std::size_t(rows_per_block(pools.layout()[l][f].growth));
      const bool snapshot = rows == 0;
      const std::size_t begin = snapshot ? 0 : std::size_t(block) * rows;
      poison_rows(pools, int(l), int(f), begin,
                  snapshot ? std::size_t(pools.slot_count()) : begin + rows);
    }
}

TEST_P(Poison, CostsOneComputation) {
  const auto base = random_tokens(14, 600);
  const auto met = greedy(joined(base, 590, random_tokens(15, 20)), 4);
  const auto next = greedy(joined(base, 590, random_tokens(16, 20)), 4);
  const auto want_met = cold(met), want_next = cold(next);

  Watched watched(*runner_);
  ScheduledRun run(watched, 4);
  run.run(greedy(base, 4));
  poison_block(pools(), watched.blocks.front());

  EXPECT_TRUE(same_bits(run.run(met), want_met));
  const auto after = run.scheduler().status();
  const std::size_t failures = run.failures.size();
  EXPECT_GT(failures, 0u);
  EXPECT_EQ(after.requests_started_over, 1u);
  EXPECT_GT(after.blocks_quarantined, 0u);

  EXPECT_TRUE(same_bits(run.run(next), want_next));
  const auto again = run.run(next);
  EXPECT_TRUE(same_bits(again, want_next));
  EXPECT_GT(again.finish->cache.memory_tokens, 512);
  EXPECT_EQ(run.failures.size(), failures);
  EXPECT_EQ(run.scheduler().status().blocks_quarantined,
            after.blocks_quarantined);
}

INSTANTIATE_TEST_SUITE_P(All, Poison, testing::ValuesIn(fixture_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
