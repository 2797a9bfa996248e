#include "layers/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise {
namespace {

using nlohmann::json;

const json* find(const json& config, const char* key) {
  const auto it = config.find(key);
  return it == config.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void refuse(const char* key, const json* value,
                         std::string_view accepted) {
  throw std::runtime_error(
      fmt::format("the configuration's \"{}\" is {}; it must be {}", key,
                  value ? value->dump() : "missing", accepted));
}

}  // namespace

int positive_setting(const json& config, const char* key, int fallback) {
  const json* value = find(config, key);
  if (!value && fallback > 0) return fallback;
  constexpr auto max = std::numeric_limits<std::int32_t>::max();
  if (!value || !value->is_number_integer() || value->get<std::int64_t>() < 1 ||
      value->get<std::int64_t>() > max)
    refuse(key, value, "a positive integer");
  return value->get<int>();
}

double number_setting(const json& config, const char* key,
                      std::optional<double> fallback) {
  const json* value = find(config, key);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_number()) refuse(key, value, "a number");
  return value->get<double>();
}

std::string word_setting(const json& config, const char* key,
                         const std::vector<std::string>& accepted) {
  const json* value = find(config, key);
  if (!value) return accepted.front();
  const bool known =
      value->is_string() &&
      std::find(accepted.begin(), accepted.end(), *value) != accepted.end();
  if (!known)
    refuse(key, value, fmt::format("{}", fmt::join(accepted, " or ")));
  return value->get<std::string>();
}

bool flag_setting(const json& config, const char* key, bool fallback) {
  const json* value = find(config, key);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(key, value, "true or false");
  return value->get<bool>();
}

}  // namespace reprise
