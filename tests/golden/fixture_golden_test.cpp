// The small fixture checkpoints against the logits of the reference
// implementations (tests/fixtures/README.md), through the real runner.
#include <gtest/gtest.h>
#include <mlx/array.h>
#include <mlx/io.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/model_runner.h"
#include "support/sequence_driver.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

const std::string kFixtures = REPRISE_SOURCE_DIR "/tests/fixtures/";

std::unique_ptr<Runner> runner_of(const std::string& folder) {
  return make_model_runner({.model_path = kFixtures + folder,
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

Golden load_golden(const std::string& arch, const std::string& quantized) {
  std::ifstream file(kFixtures + arch + "/golden.json");
  const auto info = nlohmann::json::parse(file);
  const bool plain = quantized.empty();
  const std::string data =
      plain ? "/golden.safetensors"
            : "/mlx-" + quantized + "/golden_mlx.safetensors";
  return {mx::load_safetensors(kFixtures + arch + data).first,
          plain
              ? info.at("tolerance_abs_fp32").get<double>()
              : info.at("mlx").at(quantized).at("tolerance_abs").get<double>()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(double{a[i]} - b[i]));
  return worst;
}

struct Case {
  const char* arch;
  const char* folder;
  const char* quantized;  // empty: the Hugging Face files
};

class FixtureGolden : public testing::TestWithParam<Case> {};

// Every listed position's logits, the prompt cut at each of them.
TEST_P(FixtureGolden, PromptLogits) {
  const Golden golden = load_golden(GetParam().arch, GetParam().quantized);
  const auto runner = runner_of(GetParam().folder);
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
              GetParam().folder, positions.size(), worst, golden.tolerance);
}

TEST_P(FixtureGolden, GreedyContinuation) {
  const Golden golden = load_golden(GetParam().arch, GetParam().quantized);
  const auto runner = runner_of(GetParam().folder);
  const auto ids = golden.ints("input_ids");
  const auto want = golden.ints("greedy_ids");
  const int logits_every = GetParam().quantized[0] == '\0' ? 1 : 4;
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
  const Golden golden = load_golden(GetParam().arch, GetParam().quantized);
  const auto runner = runner_of(GetParam().folder);
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
                         testing::Values(Case{"llama", "llama/hf", ""},
                                         Case{"llama", "llama/mlx-q4", "q4"},
                                         Case{"llama", "llama/mlx-q8", "q8"}),
                         [](const auto& info) {
                           std::string name = info.param.folder;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

}  // namespace
}  // namespace reprise
