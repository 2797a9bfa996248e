// A request and a reply as plain values, so that only the transport needs an
// HTTP library.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace reprise {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;        // "GET"
  std::string path;          // decoded, without the query
  HttpHeaders headers = {};  // as they came; may hold secrets: never logged
  std::string body = {};

  // The first header of this name in any case, or empty.
  std::string_view header(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};
};

// The error in OpenAI's shape; busy and unavailable carry a Retry-After.
HttpReply error_reply(int status, const Error& error);
HttpReply error_reply(const Error& error);  // the status of its kind

// ASCII only, as HTTP's names, schemes and hosts compare.
bool equals_ignoring_case(std::string_view a, std::string_view b);

// Printable ASCII but the space.
bool is_visible(char c);

// What a client wrote, for a message: short, and safe to print.
std::string shown(std::string_view text);

}  // namespace reprise
