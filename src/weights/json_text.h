// JSON of a model's files, whoever wrote them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace reprise {

// Arrays and objects inside each other. What writes, compares or copies a
// value goes down it by calls: without a bound, a file could end the program.
inline constexpr int kJsonTextDepthMax = 64;

// JSON converts to everything, an Error included, so the compiler must be
// told which of the two it is.
inline Result<nlohmann::json> json_result(nlohmann::json value) {
  return Result<nlohmann::json>(boost::system::in_place_value,
                                std::move(value));
}

// A parser callback that keeps out what lies deeper, and notes it in
// `too_deep`, which outlives the parsing.
template <class Json>
auto bounded_depth(bool& too_deep) {
  return [&too_deep](int depth, typename Json::parse_event_t, Json&) {
    too_deep |= depth > kJsonTextDepthMax;
    return depth <= kJsonTextDepthMax;
  };
}

// A discarded value for what is not JSON, or nested too deeply.
template <class Json>
Json parse_json_text(std::string_view text) {
  bool too_deep = false;
  Json value = Json::parse(text, bounded_depth<Json>(too_deep),
                           /*allow_exceptions=*/false);
  return too_deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace reprise
