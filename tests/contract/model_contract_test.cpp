// What every model promises together with scheduler, cache and runner, on
// real checkpoints: company, cuts, reuse and failures never show in a result.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/contract_case.h"
#include "kernels/fault.h"

namespace reprise {
namespace {

constexpr int kTokens = 300;

class ModelContract : public Contract {
 protected:
  static Request request(std::vector<TokenId> prompt, int max_tokens = 8) {
    return greedy(std::move(prompt), max_tokens);
  }

  // In a run of its own, which overwrites the state of every other one.
  ScheduledRun::Reply alone(Request r, bool cache = true) {
    r.cache_prompt = cache;
    ScheduledRun run(*runner_, 4);
    return run.run(std::move(r));
  }
};

TEST_P(ModelContract, FourAtOnceAreAsAlone) {
  std::vector<Request> requests;
  for (unsigned i = 0; i < 4; ++i)
    requests.push_back(request(random_tokens(i, kTokens - 70 * int(i)), 12));
  ScheduledRun crowd(*runner_, 4);
  std::vector<RequestId> ids;
  for (const Request& r : requests) ids.push_back(crowd.add(r));
  crowd.run();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& got = crowd.replies[ids[i]];
    ASSERT_EQ(got.tokens.size(), 12u);
    EXPECT_TRUE(got == alone(requests[i])) << "request " << i;
  }
}

// A later arrival joins running replies in the middle of their decode.
TEST_P(ModelContract, LateArrivalsChangeNothing) {
  const Request first = request(random_tokens(1, 100), 10);
  const Request second = request(random_tokens(2, 150), 5);
  ScheduledRun crowd(*runner_, 4);
  const auto a = crowd.add(first);
  for (int i = 0; i < 5; ++i) crowd.step();
  const auto b = crowd.add(second);
  crowd.run();
  EXPECT_TRUE(crowd.replies[a] == alone(first));
  EXPECT_TRUE(crowd.replies[b] == alone(second));
}

TEST_P(ModelContract, CacheOnOrOffIsTheSame) {
  const auto prompt = random_tokens(3, kTokens);
  const auto cold = alone(request(prompt), /*cache=*/false);
  EXPECT_EQ(cold.finish->cache.evaluated_tokens, int(prompt.size()));
  EXPECT_EQ(cold.finish->cache.miss_reason, MissReason::disabled);

  ScheduledRun run(*runner_, 4);
  EXPECT_TRUE(run.run(request(prompt)) == cold);
  const auto again = run.run(request(prompt));  // an exact repeat
  EXPECT_TRUE(again == cold);
  if (keeps_snapshots()) {
    EXPECT_EQ(again.finish->cache.evaluated_tokens, kTokens - 256);
    EXPECT_EQ(again.finish->cache.miss_reason, MissReason::no_snapshot);
    return;
  }
  EXPECT_EQ(again.finish->cache.evaluated_tokens, 1);
  EXPECT_EQ(again.finish->cache.miss_reason, MissReason::none);
}

// The second turn of a chat, and a prompt that leaves it inside a block.
TEST_P(ModelContract, PrefixesOfEveryKindAreAsComputed) {
  const auto prompt = random_tokens(4, 280);
  const auto first = alone(request(prompt, 10), false);
  auto turn = prompt;
  turn.insert(turn.end(), first.tokens.begin(), first.tokens.end());
  const auto tail = random_tokens(5, 33);
  turn.insert(turn.end(), tail.begin(), tail.end());
  auto branch = prompt;
  branch.resize(270);
  branch.insert(branch.end(), tail.begin(), tail.end());

  const auto cold_turn = alone(request(turn), false);
  const auto cold_branch = alone(request(branch), false);

  ScheduledRun run(*runner_, 4);
  EXPECT_TRUE(run.run(request(prompt, 10)) == first);
  const auto second = run.run(request(turn));
  EXPECT_TRUE(second == cold_turn);
  // All but the new tokens and the reply's last, which had no row yet.
  EXPECT_EQ(second.finish->cache.evaluated_tokens, 33 + 1);
  const auto third = run.run(request(branch));
  EXPECT_TRUE(third == cold_branch);
  EXPECT_EQ(third.finish->cache.evaluated_tokens,
            33 + (keeps_snapshots() ? 270 - 256 : 0));
  // And what they branched from is unharmed.
  EXPECT_TRUE(run.run(request(prompt, 10)) == first);
}

// A step that throws at any layer, early or late, leaves everything as it
// was: the same requests end with the same bits.
TEST_P(ModelContract, AFailureAtAnyLayerLeavesNoTrace) {
  const Request a = request(random_tokens(6, 90), 6);
  const Request b = request(random_tokens(7, 70), 6);
  const auto want_a = alone(a);
  const auto want_b = alone(b);
  using kernels::FaultStage;
  int appends = 0;  // of a step: two for each layer that keeps state
  kernels::set_fault_hook(
      [&](FaultStage at) { appends += at == FaultStage::build; });
  ScheduledRun counted(*runner_, 4);
  counted.add(a);
  counted.step();
  kernels::set_fault_hook({});
  ASSERT_GT(appends, 0);
  // All layers of the small models; of the real one a sample, but in the soak.
  const bool soak = std::getenv("REPRISE_SOAK") != nullptr;
  const int stride = soak ? 2 : std::max(2, appends / 8 * 2);
  for (const auto stage :
       {FaultStage::build, FaultStage::eval, FaultStage::task}) {
    for (int target = 0; target < appends; target += stride) {
      ScheduledRun run(*runner_, 4);
      const auto id_a = run.add(a);
      const auto id_b = run.add(b);
      for (int i = 0; i < 3; ++i) run.step();
      const auto before = run.scheduler().status();
      int seen = 0;
      kernels::set_fault_hook([&](FaultStage at) {
        if (at == stage && seen++ == target)
          throw std::runtime_error("planted");
      });
      run.step();
      kernels::set_fault_hook({});
      ASSERT_EQ(run.failures, std::vector<std::string>{"planted"});
      const auto after = run.scheduler().status();
      EXPECT_EQ(after.blocks_held, before.blocks_held);
      EXPECT_EQ(after.blocks_cached, before.blocks_cached);
      EXPECT_EQ(after.evaluated_tokens, before.evaluated_tokens);
      run.run();
      EXPECT_TRUE(run.replies[id_a] == want_a) << "append " << target;
      EXPECT_TRUE(run.replies[id_b] == want_b) << "append " << target;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelContract, testing::ValuesIn(model_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
