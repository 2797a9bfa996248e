#include "token_ids.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "standard_streams.h"
#include "weights/json_text.h"

namespace reprise {
namespace {

constexpr std::size_t kInputBytesMax = std::size_t{64} << 20;

Error no_id(const std::string& what, std::size_t place) {
  return {ErrorKind::invalid,
          fmt::format("{} (number {}) is not a token id: give a JSON array of "
                      "integers, or integers with spaces between them",
                      what, place)};
}

Result<std::vector<TokenId>> parse_array(const std::string& text) {
  const auto array = parse_json_text<nlohmann::json>(text);
  if (!array.is_array())
    return Error{ErrorKind::invalid, "the JSON array of token ids is broken"};
  std::vector<TokenId> ids;
  for (const auto& item : array) {
    // As double: an integer past 64 signed bits would come out negative.
    using Limits = std::numeric_limits<TokenId>;
    const double value = item.is_number_integer() ? item.get<double>() : 0.5;
    const bool fits = value == std::floor(value) && value >= Limits::min() &&
                      value <= Limits::max();
    if (!fits) return no_id(item.dump().substr(0, 40), ids.size() + 1);
    ids.push_back(item.get<TokenId>());
  }
  return ids;
}

}  // namespace

Result<std::vector<TokenId>> parse_token_ids(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[')
    return parse_array(text);
  std::vector<TokenId> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    TokenId id = 0;
    const char* end = word.data() + word.size();
    const auto [at, failed] = std::from_chars(word.data(), end, id);
    if (failed != std::errc() || at != end)
      return no_id(fmt::format("'{}'", word.substr(0, 40)), ids.size() + 1);
    ids.push_back(id);
  }
  return ids;
}

Result<std::vector<TokenId>> read_token_ids(const std::string& path) {
  const auto text = read_input(path, kInputBytesMax);
  if (!text) return text.error();
  auto ids = parse_token_ids(*text);
  if (ids) return ids;
  return Error{ids.error().kind,
               fmt::format("'{}': {}", path, ids.error().message)};
}

}  // namespace reprise
