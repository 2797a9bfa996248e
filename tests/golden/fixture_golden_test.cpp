// The small fixture checkpoints against the logits of the reference
// implementations, through the real runner. Tolerances: docs/testing.md.
#include <gtest/gtest.h>
#include <mlx/array.h>
#include <mlx/io.h>

#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/model_runner.h"
#include "models/registry.h"
#include "support/fixture_models.h"
#include "support/sequence_driver.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

const std::string kFixtures = REPRISE_SOURCE_DIR "/tests/fixtures/";

std::unique_ptr<Runner> runner_of(const FixtureModel& model) {
  return make_model_runner({.model_path = model.path,
                            .device = "cpu",
                            .dtype = "float32",
                            .state_memory_bytes = std::size_t{16} << 20});
}

struct Golden {
  std::unordered_map<std::string, mx::array> tensors;
  double tolerance = 0;

  std::vector<int> ints(const std::string& name) const {
    mx::array a = tensors.at(name);
    a.eval();
    return {a.data<int>(), a.data<int>() + a.size()};
  }
  // Row i of a float32 [rows, vocabulary] tensor.
  std::vector<float> row(const std::string& name, int i) const {
    mx::array a = tensors.at(name);
    a.eval();
    const auto width = a.shape(-1);
    const float* data = a.data<float>() + std::size_t(i) * width;
    return {data, data + width};
  }
};

Golden load_golden(const FixtureModel& model) {
  const std::string folder = kFixtures + model.arch;
  const auto info = read_fixture_json(folder + "/golden.json");
  if (model.quantized.empty())
    return {mx::load_safetensors(folder + "/golden.safetensors").first,
            info.at("tolerance_abs_fp32")};
  return {mx::load_safetensors(model.path + "/golden_mlx.safetensors").first,
          info.at("mlx").at(model.quantized).at("tolerance_abs")};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(double{a[i]} - b[i]));
  return worst;
}

class FixtureGolden : public testing::TestWithParam<FixtureModel> {};

// Every listed position's logits, the prompt cut at each of them.
TEST_P(FixtureGolden, PromptLogits) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam());
  const auto ids = golden.ints("input_ids");
  const auto positions = golden.ints("positions");
  SequenceDriver sequence(*runner);
  double worst = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    ASSERT_GE(positions[i], sequence.length());
    const auto logits = sequence.feed(std::span(ids).subspan(
        sequence.length(), positions[i] + 1 - sequence.length()));
    worst = std::max(worst, distance(logits, golden.row("logits", int(i))));
  }
  EXPECT_LE(worst, golden.tolerance);
  std::printf("%s: %zu positions, worst difference %.2e, tolerance %.2e\n",
              GetParam().name().c_str(), positions.size(), worst, golden.tolerance);
}

TEST_P(FixtureGolden, GreedyContinuation) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam());
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
  const auto runner = runner_of(GetParam());
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
