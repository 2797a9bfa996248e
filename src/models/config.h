// Settings out of a config.json, each with one clear error.
#pragma once

#include <nlohmann/json.hpp>

namespace reprise {

// A positive integer below 2^31, or its default where `fallback` > 0. Throws
// std::runtime_error with key, value and what is accepted.
int positive_setting(const nlohmann::json& config, const char* key,
                     int fallback = 0);

double number_setting(const nlohmann::json& config, const char* key,
                      double fallback);

bool flag_setting(const nlohmann::json& config, const char* key, bool fallback);

}  // namespace reprise
