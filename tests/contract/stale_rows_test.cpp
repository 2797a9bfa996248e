// What lies in the pools beside a sequence's own rows is garbage that nobody
// reads, and nobody saves: here it is NaN, before every step.
#include "contract/contract_case.h"

namespace reprise {
namespace {

using StaleRows = Contract;

void poison_all_but(const BlockPools& pools, const SequenceState& state) {
  const std::string bytes = to_bytes(pools, state);
  for (std::size_t l = 0; l < pools.layout().size(); ++l)
    for (std::size_t f = 0; f < pools.layout()[l].size(); ++f)
      poison_rows(pools, int(l), int(f), 0, pools.pool(l, f).shape(0));
  ASSERT_TRUE(from_bytes(bytes, pools, state));
  ASSERT_TRUE(to_bytes(pools, state) == bytes);
}

TEST_P(StaleRows, AreNeverReadAndNeverSaved) {
  const auto tokens = random_tokens(12, kPromptTokens);
  const std::span<const TokenId> all(tokens);
  std::vector<std::vector<float>> want;
  std::vector<std::string> saved;
  SequenceDriver clean(*runner_);
  const auto piece = [&](int length, const SequenceDriver& sequence) {
    return all.subspan(sequence.length(),
                       std::size_t(length - sequence.length()));
  };
  for (const int length : kCutLengths) {
    want.push_back(clean.feed(piece(length, clean)));
    saved.push_back(to_bytes(pools(), state_of(clean)));
  }
  SequenceDriver sequence(*runner_, 4);
  for (std::size_t i = 0; i < want.size(); ++i) {
    poison_all_but(pools(), state_of(sequence));
    EXPECT_TRUE(
        same_bits(sequence.feed(piece(kCutLengths[i], sequence)), want[i]))
        << kCutLengths[i] << " tokens";
    EXPECT_TRUE(to_bytes(pools(), state_of(sequence)) == saved[i])
        << kCutLengths[i] << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(All, StaleRows, testing::ValuesIn(fixture_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
