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

// The same, but 0 is a value as well, and may be the default.
int count_setting(const nlohmann::json& config, const char* key, int fallback);

double number_setting(const nlohmann::json& config, const char* key,
                      std::optional<double> fallback = {});

bool flag_setting(const nlohmann::json& config, const char* key, bool fallback);

// One of `accepted`, whose first is the default.
std::string word_setting(const nlohmann::json& config, const char* key,
                         const std::vector<std::string>& accepted);

// A list of `count` words of `accepted`, as of layers; empty if it is not
// there.
std::vector<std::string> word_list_setting(
    const nlohmann::json& config, const char* key,
    const std::vector<std::string>& accepted, int count);

// The settings of the decoder: "text_config" where a model has other inputs
// besides text, the configuration itself where it has none.
const nlohmann::json& text_settings(const nlohmann::json& config);

}  // namespace reprise
