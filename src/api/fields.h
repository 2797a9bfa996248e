// Typed reading of a JSON object's fields, with errors that name the field,
// its value and what is accepted. A field that is absent or null counts as not
// given everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "request/request.h"

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

// The same for a parameter with several names; giving it under two of them
// with different values is an error.
Result<std::optional<std::int64_t>> read_integer(
    const Json& object, std::initializer_list<const char*> names,
    const IntegerRange& range);

// Whether the value is a whole number from 0 to vocabulary - 1.
bool is_token_id(const Json& value, int vocabulary);

// An array of at most `count_max` token ids. Errors: invalid with the place.
Result<std::vector<TokenId>> read_token_ids(const Json& ids,
                                            const std::string& place,
                                            int vocabulary,
                                            std::size_t count_max);

// A number under two names that mean the same.
Error two_values(const char* a, const Json& a_value, const char* b,
                 const Json& b_value);

}  // namespace reprise
