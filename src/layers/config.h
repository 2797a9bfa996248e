// Settings out of a config.json, each with one clear error: what is not there
// and has no default, or is not what is served, throws std::runtime_error with
// key, value and what is accepted. null counts as not there.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

// A positive integer below 2^31, or its default where `fallback` > 0.
int positive_setting(const nlohmann::json& config, const char* key,
                     int fallback = 0);

double number_setting(const nlohmann::json& config, const char* key,
                      std::optional<double> fallback = {});

bool flag_setting(const nlohmann::json& config, const char* key, bool fallback);

// One of `accepted`, whose first is the default.
std::string word_setting(const nlohmann::json& config, const char* key,
                         const std::vector<std::string>& accepted);

}  // namespace reprise
