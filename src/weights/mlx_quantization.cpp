#include "weights/mlx_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reprise {
namespace {

using nlohmann::json;

constexpr std::array kGroupSizes = {32, 64, 128};
constexpr std::array kBits = {2, 3, 4, 5, 6, 8};

template <typename List>
Result<int> one_of(const json& settings, const char* key, const List& allowed,
                   const std::string& module) {
  const auto found = settings.find(key);
  if (found != settings.end() && found->is_number_integer())
    for (const int value : allowed)
      if (*found == value) return value;
  return Error{
      ErrorKind::invalid,
      fmt::format(
          "config.json gives module '{}' the quantization {} {}; it must be "
          "one of {}",
          module, key, found == settings.end() ? "(none)" : found->dump(),
          fmt::join(allowed, ", "))};
}

}  // namespace

Result<MlxQuantization> MlxQuantization::from_config(const json& config) {
  MlxQuantization result;
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    if (!found->is_object())
      return Error{
          ErrorKind::invalid,
          fmt::format("'{}' in config.json is {}, and must be an object", key,
                      found->dump())};
    if (const auto method = found->find("quant_method"); method != found->end())
      return Error{
          ErrorKind::unsupported,
          fmt::format(
              "config.json names the quantization method {}, which is not "
              "served; use an MLX-quantized or an unquantized checkpoint",
              method->dump())};
    result.settings_ = *found;
    return result;
  }
  return result;
}

Result<QuantizationSettings> MlxQuantization::of(
    const std::string& module) const {
  if (settings_.is_null())
    return Error{
        ErrorKind::corrupt,
        fmt::format(
            "module '{}' has scales, and config.json has no 'quantization'",
            module)};
  const json* settings = &settings_;
  if (const auto own = settings_.find(module); own != settings_.end()) {
    if (!own->is_object())
      return Error{
          ErrorKind::corrupt,
          fmt::format("module '{}' has scales, and config.json has {} as its "
                      "quantization",
                      module, own->dump())};
    settings = &*own;
  }
  const auto mode = settings->find("mode");
  if (mode != settings->end() && *mode != "affine")
    return Error{
        ErrorKind::unsupported,
        fmt::format(
            "module '{}' is quantized in mode {}; only affine is served",
            module, mode->dump())};
  const auto group = one_of(*settings, "group_size", kGroupSizes, module);
  if (!group) return group.error();
  const auto bits = one_of(*settings, "bits", kBits, module);
  if (!bits) return bits.error();
  return QuantizationSettings{.group_size = *group, .bits = *bits};
}

}  // namespace reprise
