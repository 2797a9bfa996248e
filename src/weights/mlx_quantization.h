// MLX's quantization settings in config.json ("quantization", or the same
// under "quantization_config"): one for all modules, with exceptions by module
// path. Source: mlx-lm's utils.py (load_model).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace reprise {

struct QuantizationSettings {
  int group_size = 64;
  int bits = 4;
};

class MlxQuantization {
 public:
  // Errors: invalid with the value; unsupported for a quant_method of another
  // tool, by name. A config without settings gives an empty object.
  static Result<MlxQuantization> from_config(const nlohmann::json& config);

  // What holds for a module that has scales. Errors: corrupt if the config
  // has no settings for it, unsupported for a mode other than affine, invalid
  // for a group size or bits that MLX does not have.
  Result<QuantizationSettings> of(const std::string& module) const;

 private:
  nlohmann::json settings_;  // object, or null without any
};

}  // namespace reprise
