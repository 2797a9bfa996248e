// Typed reading of a JSON object's fields, with errors that name the field,
// its value and what is accepted. A field that is absent or null counts as not
// given everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/result.h"

namespace reprise {

// A value for an error message: short, ASCII, whole only where it is small.
std::string describe_value(const Json& value);

// invalid: "`name` must be <expected>, not <value>."
Error wrong_value(std::string_view name, const Json& value,
                  std::string_view expected);

// The field, or nullptr where it is absent or null. `object` is an object.
const Json* find_field(const Json& object, const char* name);

Result<bool> read_bool(const Json& object, const char* name, bool fallback);

// Any finite number in [min, max]; with open_min, min itself is refused.
struct NumberRange {
  double min = 0;
  double max = 0;
  bool open_min = false;
};
Result<double> read_number(const Json& object, const char* name,
                           double fallback, const NumberRange& range);

// Whole numbers in [min, max]. A number with a point or an exponent is
// refused, even 2.0.
struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};
Result<std::optional<std::int64_t>> read_integer(const Json& object,
                                                 const char* name,
                                                 const IntegerRange& range);

}  // namespace reprise
