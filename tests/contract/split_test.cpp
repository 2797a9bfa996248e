// However a prompt is cut into steps, the state and the logits behind it are
// those of one pass: prefill, decode, and any mixture.
#include "contract/contract_case.h"

namespace reprise {
namespace {

using Splits = Contract;

TEST_P(Splits, OnePassIsPrefillAndDecodeIsAnySplit) {
  const auto tokens = random_tokens(11, kPromptTokens);
  const std::span<const TokenId> all(tokens);
  SequenceDriver split(*runner_, 8);
  for (const int length : kCutLengths) {
    SequenceDriver once(*runner_);
    const auto want = once.feed(all.first(length));
    const auto got = split.feed(
        all.subspan(split.length(), std::size_t(length - split.length())));
    EXPECT_TRUE(same_bits(got, want)) << length << " tokens";
    // Two tokens one by one, beside both at once.
    SequenceDriver both(*runner_, 4);
    const auto pair = both.feed(all.first(length + 2));
    once.feed(all.subspan(length, 1));
    EXPECT_TRUE(same_bits(once.feed(all.subspan(length + 1, 1)), pair))
        << length << " tokens";
    EXPECT_TRUE(to_bytes(pools(), state_of(once)) ==
                to_bytes(pools(), state_of(both)))
        << length << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Splits, testing::ValuesIn(fixture_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
