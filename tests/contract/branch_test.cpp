// A prompt that leaves a known one at any token is as if it had never been
// fed, alone and while others leave at the same token; and the known one stays
// as it was.
#include "contract/contract_case.h"

namespace reprise {
namespace {

using Branches = Contract;

TEST_P(Branches, CutIsNeverFedAndForkIsCopy) {
  constexpr int kReply = 3;
  const auto base = random_tokens(13, kPromptTokens);
  const auto want_base = cold(greedy(base, kReply));
  for (const int length : kCutLengths) {
    // Tokens that are not the base's next: the cut is exactly here.
    auto left = random_tokens(100u + unsigned(length), 9);
    auto right = random_tokens(2000u + unsigned(length), 70);
    left[0] = (base[length] + 1) % 480;
    right[0] = (base[length] + 2) % 480;
    const auto a = greedy(joined(base, length, left), kReply);
    const auto b = greedy(joined(base, length, right), kReply);
    const auto want_a = cold(a), want_b = cold(b);

    ScheduledRun run(*runner_, 4);
    ASSERT_TRUE(same_bits(run.run(greedy(base, kReply)), want_base));
    const auto id_a = run.add(a), id_b = run.add(b);
    const auto id_base = run.add(greedy(base, kReply));
    run.run();
    for (const auto& [id, want] :
         {std::pair(id_a, &want_a), {id_b, &want_b}, {id_base, &want_base}})
      EXPECT_TRUE(same_bits(run.replies[id], *want))
          << length << " tokens shared, request " << id;
    EXPECT_TRUE(same_bits(run.run(a), want_a)) << length << " tokens shared";
    EXPECT_TRUE(same_bits(run.run(greedy(base, kReply)), want_base))
        << length << " tokens shared";
    const CacheReport& report = run.replies[id_a].finish->cache;
    if (keeps_snapshots())
      EXPECT_LE(report.memory_tokens, length);
    else
      EXPECT_EQ(report.memory_tokens, length);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Branches, testing::ValuesIn(fixture_models()),
                         case_name);

}  // namespace
}  // namespace reprise
