// A request's body → JSON, under limits that keep a hostile body cheap.
#pragma once

#include <cstddef>
#include <string_view>

#include "api/json.h"
#include "base/result.h"

namespace reprise {

// Arrays and objects inside each other.
inline constexpr int kJsonDepthMax = 64;

// Values of all kinds in one body; a prompt of token ids is one value an id.
inline constexpr std::size_t kJsonValuesMax = std::size_t{4} << 20;

// One JSON object and nothing behind it. Never throws for bad input. Errors:
// invalid with the place, for what is not JSON (NaN, trailing text, text that
// is not UTF-8, numbers beyond a double), for a key that stands twice in one
// object, for more depth or values than the limits, and for any value that is
// not an object.
Result<Json> parse_json_object(std::string_view text);

}  // namespace reprise
