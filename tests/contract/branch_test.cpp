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
    const auto branch = [&](int which, int size) {
      auto tail = random_tokens(unsigned(1000 * which + length), size);
      tail[0] = (base[length] + which) % 480;
      return greedy(joined(base, length, tail), kReply);
    };
    const auto a = branch(1, 9), b = branch(2, 70), c = branch(3, 5);
    const auto want_a = cold(a), want_b = cold(b), want_c = cold(c);
    const auto known = greedy(base, kReply);

    ScheduledRun run(*runner_, 4);
    ASSERT_TRUE(same_bits(run.run(known), want_base));
    const auto alone = run.run(a);
    EXPECT_TRUE(same_bits(alone, want_a)) << length << " tokens shared";
    EXPECT_TRUE(same_bits(run.run(known), want_base))
        << length << " tokens shared, after a branch";
    const auto id_b = run.add(b), id_c = run.add(c), id_base = run.add(known);
    run.run();
    for (const auto& [id, want] :
         {std::pair(id_b, &want_b), {id_c, &want_c}, {id_base, &want_base}})
      EXPECT_TRUE(same_bits(run.replies[id], *want))
          << length << " tokens shared, request " << id;
    EXPECT_TRUE(same_bits(run.run(a), want_a)) << length << " tokens shared";
    EXPECT_TRUE(same_bits(run.run(known), want_base))
        << length << " tokens shared, after three branches";
    const CacheReport& report = alone.finish->cache;
    if (keeps_snapshots())
      EXPECT_LE(report.memory_tokens, length);
    else
      EXPECT_EQ(report.memory_tokens, length);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Branches, testing::ValuesIn(fixture_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
