#include "api/logit_bias.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "api/fields.h"

namespace reprise {

namespace {

constexpr char kForms[] =
    "an object {\"id\": bias} or an array [[id or text, bias or false]]";

std::optional<float> number_bias(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double bias = value.get<double>();
  if (!(std::abs(bias) <= 100)) return std::nullopt;
  return static_cast<float>(bias);
}

Error bad_bias(const std::string& place, const Json& value, bool may_be_false) {
  return wrong_value(place, value,
                     may_be_false ? "a number from -100 to 100, or false"
                                  : "a number from -100 to 100");
}

Error bad_id(const std::string& place, const Json& id, int vocabulary) {
  return wrong_value(place, id,
                     fmt::format("a token id from 0 to {} (the vocabulary has "
                                 "{})",
                                 vocabulary - 1, vocabulary));
}

Result<LogitBias> read_object(const Json& entries, int vocabulary) {
  LogitBias out;
  for (const auto& [key, value] : entries.items()) {
    TokenId id = -1;
    const char* end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, id);
    if (read.ec != std::errc() || read.ptr != end || id < 0 || id >= vocabulary)
      return bad_id("logit_bias", Json(key), vocabulary);
    const auto bias = number_bias(value);
    if (!bias)
      return bad_bias("logit_bias." + std::to_string(id), value, false);
    set_bias(out.tokens, {id, *bias});
  }
  return out;
}

Result<void> read_pair(const Json& pair, const std::string& place,
                       int vocabulary, LogitBias& out) {
  if (!pair.is_array() || pair.size() != 2)
    return wrong_value(place, pair, "a pair [id or text, bias or false]");
  float bias = -std::numeric_limits<float>::infinity();
  if (pair[1] != false) {
    const auto number = number_bias(pair[1]);
    if (!number) return bad_bias(place + "[1]", pair[1], true);
    bias = *number;
  }
  if (pair[0].is_string()) {
    const auto& text = pair[0].get_ref<const std::string&>();
    if (text.empty() || text.size() > kLogitBiasBytesMax)
      return wrong_value(
          place + "[0]", pair[0],
          fmt::format("a text of 1 to {} bytes", kLogitBiasBytesMax));
    out.texts.push_back({text, bias});
    return {};
  }
  if (!is_token_id(pair[0], vocabulary))
    return bad_id(place + "[0]", pair[0], vocabulary);
  set_bias(out.tokens, {pair[0].get<TokenId>(), bias});
  return {};
}

}  // namespace

void set_bias(std::vector<TokenBias>& biases, TokenBias bias) {
  const auto same = std::find_if(
      biases.begin(), biases.end(),
      [&](const TokenBias& other) { return other.token == bias.token; });
  if (same == biases.end())
    biases.push_back(bias);
  else
    *same = bias;
}

Result<LogitBias> read_logit_bias(const Json& body, int vocabulary) {
  const auto* entries = find_field(body, "logit_bias");
  if (!entries) return LogitBias{};
  if (!entries->is_object() && !entries->is_array())
    return wrong_value("logit_bias", *entries, kForms);
  if (entries->size() > kLogitBiasMax)
    return wrong_value("logit_bias", *entries,
                       fmt::format("at most {} entries", kLogitBiasMax));
  if (entries->is_object()) return read_object(*entries, vocabulary);
  LogitBias out;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const auto read = read_pair((*entries)[i], fmt::format("logit_bias[{}]", i),
                                vocabulary, out);
    if (!read) return read.error();
  }
  return out;
}

}  // namespace reprise
