#include "layers/rope.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "layers/config.h"
#include "layers/linear.h"

namespace reprise {
namespace {

using nlohmann::json;

// Newer configs keep everything in rope_parameters, older ones in rope_theta
// and rope_scaling; null counts as absent in both.
json rope_settings(const json& config) {
  json settings = json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.contains(key) && config[key].is_object())
      settings.update(config[key]);
  for (const char* key : {"rope_theta", "partial_rotary_factor"})
    if (!settings.contains(key) && config.contains(key))
      settings[key] = config[key];
  if (!settings.contains("rope_type") && settings.contains("type"))
    settings["rope_type"] = settings["type"];
  return settings;
}

// Long wavelengths are stretched by `factor`, short ones kept, those between
// blended (Llama 3.1's report, §3.4; transformers' "llama3").
float stretch_llama3(float frequency, const json& settings) {
  const float factor = number_setting(settings, "factor");
  const float low = number_setting(settings, "low_freq_factor");
  const float high = number_setting(settings, "high_freq_factor");
  const float original =
      number_setting(settings, "original_max_position_embeddings");
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * (frequency / factor) + smooth * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const json& config, int rotary) {
  const json settings = rope_settings(config);
  const std::string type =
      word_setting(settings, "rope_type", {"default", "linear", "llama3"});
  const float theta = number_setting(settings, "rope_theta", 10000.0);
  std::vector<float> frequencies(static_cast<std::size_t>(rotary) / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / float(rotary);
    float frequency = 1.0f / std::pow(theta, exponent);
    if (type == "llama3") frequency = stretch_llama3(frequency, settings);
    if (type == "linear")
      frequency /= static_cast<float>(number_setting(settings, "factor"));
    frequencies[i] = frequency;
  }
  return frequencies;
}

void require_full_rotation(const json& config) {
  const double part =
      number_setting(rope_settings(config), "partial_rotary_factor", 1.0);
  if (part != 1.0)
    throw std::runtime_error(fmt::format(
        "the configuration's \"partial_rotary_factor\" is {}; only heads that "
        "rotate as a whole (1) are served for this model type",
        part));
}

std::vector<float> load_rope_frequencies(const Checkpoint& checkpoint,
                                         int rotary) {
  constexpr const char* kDivisors = "rope_freqs.weight";
  auto frequencies = rope_frequencies(checkpoint.config(), rotary);
  if (!checkpoint.contains(kDivisors)) return frequencies;
  auto divisors = mlx::core::astype(
      load_vector(checkpoint, kDivisors, rotary / 2), mlx::core::float32);
  divisors.eval();
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] /= divisors.data<float>()[i];
  return frequencies;
}

}  // namespace reprise
