// The reference outputs of a fixture, and how far a runner's are from them.
#pragma once

#include <gtest/gtest.h>
#include <mlx/array.h>
#include <mlx/io.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/model_runner.h"
#include "support/fixture_models.h"
#include "support/sequence_driver.h"

namespace reprise {

inline std::unique_ptr<Runner> runner_of(const std::string& path,
                                         const KvQuantization& kv = {}) {
  return make_model_runner({.model_path = path,
                            .device = "cpu",
                            .dtype = "float32",
                            .state_memory_bytes = std::size_t{16} << 20,
                            .kv = kv});
}

struct Golden {
  std::unordered_map<std::string, mlx::core::array> tensors;
  double tolerance = 0;

  std::vector<int> ints(const std::string& name) const {
    mlx::core::array a = tensors.at(name);
    a.eval();
    return {a.data<int>(), a.data<int>() + a.size()};
  }
  // Row i of a float32 [rows, vocabulary] tensor.
  std::vector<float> row(const std::string& name, int i) const {
    mlx::core::array a = tensors.at(name);
    a.eval();
    const auto width = a.shape(-1);
    const float* data = a.data<float>() + std::size_t(i) * width;
    return {data, data + width};
  }
};

inline Golden load_golden(const FixtureModel& model) {
  const std::string folder = REPRISE_SOURCE_DIR "/tests/fixtures/" + model.arch;
  const auto info = read_fixture_json(folder + "/golden.json");
  if (model.quantized.empty())
    return {mlx::core::load_safetensors(folder + "/golden.safetensors").first,
            info.at("tolerance_abs_fp32")};
  const std::string data = model.path + "/golden_mlx.safetensors";
  return {mlx::core::load_safetensors(data).first,
          info.at("mlx").at(model.quantized).at("tolerance_abs")};
}

// Not a number is further than anything, and stays it.
inline double larger(double a, double b) {
  return std::isnan(a) || b <= a ? a : b;
}

inline double distance(const std::vector<float>& a,
                       const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = larger(worst, std::abs(double{a[i]} - b[i]));
  return worst;
}

// The greatest difference at every listed position, the prompt cut at each.
inline double prompt_distance(const Golden& golden, Runner& runner) {
  const auto ids = golden.ints("input_ids");
  const auto positions = golden.ints("positions");
  SequenceDriver sequence(runner);
  double worst = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto logits = sequence.feed(std::span(ids).subspan(
        sequence.length(), positions[i] + 1 - sequence.length()));
    worst = larger(worst, distance(logits, golden.row("logits", int(i))));
  }
  std::printf("%zu positions, worst difference %.2e, tolerance %.2e\n",
              positions.size(), worst, golden.tolerance);
  return worst;
}

}  // namespace reprise
