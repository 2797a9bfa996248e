// The small fixture checkpoints against the logits of the reference
// implementations, through the real runner. Tolerances: docs/testing.md.
#include <gtest/gtest.h>

#include <string>

#include "golden.h"
#include "models/registry.h"

namespace reprise {
namespace {

class FixtureGolden : public testing::TestWithParam<FixtureModel> {};

TEST_P(FixtureGolden, PromptLogits) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam().path);
  EXPECT_LE(prompt_distance(golden, *runner), golden.tolerance);
}

TEST_P(FixtureGolden, GreedyContinuation) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam().path);
  const auto ids = golden.ints("input_ids");
  const auto want = golden.ints("greedy_ids");
  const int logits_every = GetParam().quantized.empty() ? 1 : 4;
  SequenceDriver sequence(*runner);
  const auto got = sequence.go_on(sequence.feed(ids), int(want.size()));
  EXPECT_EQ(got.ids, want);
  for (std::size_t i = 0; i < want.size(); i += logits_every)
    EXPECT_LE(distance(got.logits[i],
                       golden.row("greedy_logits", int(i) / logits_every)),
              golden.tolerance)
        << "step " << i;
}

// Fed in any two parts, the last logits are the same bits; and those of the
// reference within its tolerance.
TEST_P(FixtureGolden, AnySplitIsOneShot) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam().path);
  const auto ids = golden.ints("input_ids");
  SequenceDriver whole(*runner);
  const auto one_shot = whole.feed(ids);
  for (const int n : {1, 3, 64, 130, 255, 256, 257, 319}) {
    SequenceDriver split(*runner, 4);
    split.feed(std::span(ids).first(n));
    EXPECT_EQ(split.feed(std::span(ids).subspan(n)), one_shot) << n;
    const std::string name = "resume." + std::to_string(n);
    if (golden.tensors.contains(name)) {
      EXPECT_LE(distance(one_shot, golden.row(name, 0)), golden.tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixtureGolden,
                         testing::ValuesIn(fixture_models()),
                         [](const auto& info) { return info.param.name(); });

// Nobody adds an architecture without a reference for it.
TEST(Fixtures, EveryArchitectureHasThem) {
  const auto models = fixture_models();
  for (const std::string& type : model_types())
    EXPECT_TRUE(
        std::any_of(models.begin(), models.end(),
                    [&](const auto& m) { return m.model_type == type; }))
        << "no folder under tests/fixtures has model_type " << type;
}

}  // namespace
}  // namespace reprise
