#include "api/fields.h"

#include <fmt/format.h>

#include <cmath>

namespace reprise {

namespace {

constexpr std::size_t kShownBytesMax = 64;

}  // namespace

std::string describe_value(const Json& value) {
  if (value.is_array() && !value.empty())
    return fmt::format("an array of {}", value.size());
  if (value.is_object() && !value.empty())
    return fmt::format("an object with {} keys", value.size());
  const Json shown =
      value.is_string()
          ? Json(value.get_ref<const std::string&>().substr(0, kShownBytesMax))
          : value;
  std::string text = shown.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (value.is_string() &&
      value.get_ref<const std::string&>().size() > kShownBytesMax)
    text += "...";
  return text;
}

Error wrong_value(std::string_view name, const Json& value,
                  std::string_view expected) {
  return Error{ErrorKind::invalid,
               fmt::format("`{}` must be {}, not {}.", name, expected,
                           describe_value(value)),
               std::string(name)};
}

const Json* find_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<bool> read_bool(const Json& object, const char* name, bool fallback) {
  const auto* value = find_field(object, name);
  if (!value) return fallback;
  if (!value->is_boolean()) return wrong_value(name, *value, "true or false");
  return value->get<bool>();
}

Result<double> read_number(const Json& object, const char* name,
                           double fallback, const NumberRange& range) {
  const auto* value = find_field(object, name);
  if (!value) return fallback;
  const auto expected =
      range.open_min
          ? fmt::format("a number greater than {} and at most {}", range.min,
                        range.max)
          : fmt::format("a number from {} to {}", range.min, range.max);
  if (!value->is_number()) return wrong_value(name, *value, expected);
  const double number = value->get<double>();
  const bool above = range.open_min ? number > range.min : number >= range.min;
  if (!std::isfinite(number) || !above || number > range.max)
    return wrong_value(name, *value, expected);
  return number;
}

Result<std::optional<std::int64_t>> read_integer(const Json& object,
                                                 const char* name,
                                                 const IntegerRange& range) {
  const auto* value = find_field(object, name);
  if (!value) return std::optional<std::int64_t>{};
  const auto refused = [&] {
    return wrong_value(
        name, *value,
        fmt::format("an integer from {} to {}", range.min, range.max));
  };
  if (!value->is_number_integer()) return refused();
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return refused();
  const auto number = value->get<std::int64_t>();
  if (number < range.min || number > range.max) return refused();
  return std::optional(number);
}

Result<std::optional<std::int64_t>> read_integer(
    const Json& object, std::initializer_list<const char*> names,
    const IntegerRange& range) {
  std::optional<std::int64_t> out;
  const char* given = nullptr;
  for (const char* name : names) {
    const auto value = read_integer(object, name, range);
    if (!value) return value.error();
    if (!*value) continue;
    if (out && *out != **value) return two_values(given, *out, name, **value);
    out = *value;
    given = name;
  }
  return out;
}

Error two_values(const char* a, const Json& a_value, const char* b,
                 const Json& b_value) {
  return Error{
      ErrorKind::invalid,
      fmt::format("`{}` is {} and `{}` is {}: they mean the same, "
                  "send one of them.",
                  a, describe_value(a_value), b, describe_value(b_value)),
      a};
}

bool is_token_id(const Json& value, int vocabulary) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary);
  const auto id = value.get<std::int64_t>();
  return id >= 0 && id < vocabulary;
}

Result<std::vector<TokenId>> read_token_ids(const Json& ids,
                                            const std::string& place,
                                            int vocabulary,
                                            std::size_t count_max) {
  if (!ids.is_array() || ids.size() > count_max)
    return wrong_value(
        place, ids, fmt::format("an array of at most {} token ids", count_max));
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!is_token_id(ids[i], vocabulary))
      return wrong_value(
          fmt::format("{}[{}]", place, i), ids[i],
          fmt::format("a token id from 0 to {} (the vocabulary has {})",
                      vocabulary - 1, vocabulary));
    out.push_back(ids[i].get<TokenId>());
  }
  return out;
}

}  // namespace reprise
