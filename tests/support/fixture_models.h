// The small checkpoints under tests/fixtures, found there: a folder with a
// golden.json that names its "arch" holds one architecture, as hf/ and as
// mlx-*/. A new one joins every test that walks this list.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace reprise {

struct FixtureModel {
  std::string arch;       // its folder: "llama"
  std::string quantized;  // "q4", or empty for hf
  std::string path;       // of the checkpoint
  std::string model_type;

  // For a test's name.
  std::string name() const {
    return arch + "_" + (quantized.empty() ? "hf" : quantized);
  }
};

inline std::ostream& operator<<(std::ostream& out, const FixtureModel& model) {
  return out << model.name();
}

inline nlohmann::json read_fixture_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

inline std::vector<FixtureModel> fixture_models() {
  namespace fs = std::filesystem;
  std::vector<FixtureModel> models;
  for (const auto& arch : fs::directory_iterator(fs::path(REPRISE_SOURCE_DIR) /
                                                 "tests" / "fixtures")) {
    const fs::path golden = arch.path() / "golden.json";
    if (!fs::exists(golden) || !read_fixture_json(golden).contains("arch"))
      continue;
    for (const auto& folder : fs::directory_iterator(arch.path())) {
      const fs::path config = folder.path() / "config.json";
      if (!fs::exists(config)) continue;
      const auto settings = read_fixture_json(config);
      const std::string kind = folder.path().filename().string();
      models.push_back({.arch = arch.path().filename().string(),
                        .quantized = kind == "hf" ? "" : kind.substr(4),
                        .path = folder.path().string(),
                        .model_type = settings.at("model_type")});
    }
  }
  std::sort(models.begin(), models.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return models;
}

}  // namespace reprise
