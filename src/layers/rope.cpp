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

constexpr const char* kProportional = "proportional";
const std::vector<std::string> kTypes = {"default", "linear", "llama3",
                                         kProportional};

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

// Of the pairs of a head a part turns as if all did, the rest not at all.
void keep_part(std::vector<float>& frequencies, const json& settings) {
  const double part = number_setting(settings, "partial_rotary_factor", 1.0);
  const float factor = number_setting(settings, "factor", 1.0);
  if (!(part >= 0 && part <= 1))
    throw std::runtime_error(fmt::format(
        "the configuration's \"partial_rotary_factor\" is {}; it must be "
        "between 0 and 1",
        part));
  const auto turning =
      static_cast<std::size_t>(part * static_cast<double>(frequencies.size()));
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = i < turning ? frequencies[i] / factor : 0.0f;
}

}  // namespace

std::vector<float> rope_frequencies(const json& config, int rotary) {
  const json settings = rope_settings(config);
  const std::string type = word_setting(settings, "rope_type", kTypes);
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
  if (type == kProportional) keep_part(frequencies, settings);
  return frequencies;
}

std::vector<float> rope_frequencies_of(const json& config,
                                       const std::string& layer_type,
                                       int rotary) {
  const json all = config.value("rope_parameters", json());
  if (!all.is_object() || !all.contains(layer_type) ||
      !all[layer_type].is_object())
    throw std::runtime_error(
        fmt::format("the configuration's \"rope_parameters\" has nothing for "
                    "layers of type {}",
                    layer_type));
  const json own = {{"rope_parameters", all[layer_type]}};
  if (word_setting(all[layer_type], "rope_type", kTypes) != kProportional)
    require_full_rotation(own);
  return rope_frequencies(own, rotary);
}

mlx::core::array frequency_array(const std::vector<float>& frequencies) {
  return mlx::core::array(frequencies.begin(),
                          {static_cast<int>(frequencies.size())});
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
