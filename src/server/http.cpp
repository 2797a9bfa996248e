#include "server/http.h"

#include <algorithm>

#include "api/errors.h"

namespace reprise {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_visible(char c) {
  return c > ' ' && c <= '~';
}

std::string shown(std::string_view text) {
  return dump(Json(std::string(text.substr(0, 128))));
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equals_ignoring_case(key, name)) return value;
  return {};
}

HttpReply error_reply(int status, const Error& error) {
  HttpReply reply{.status = status, .body = dump(error_body(status, error))};
  if (status == 429 || status == 503)
    reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply error_reply(const Error& error) {
  return error_reply(http_status(error), error);
}

}  // namespace reprise
