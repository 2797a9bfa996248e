// A Result that holds JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"

namespace reprise {

// JSON converts to everything, an Error included, so the compiler must be
// told which of the two it is.
inline Result<nlohmann::json> json_result(nlohmann::json value) {
  return Result<nlohmann::json>(boost::system::in_place_value,
                                std::move(value));
}

}  // namespace reprise
