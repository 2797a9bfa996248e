// A request and a reply as plain values, so that only transport.cpp needs an
// HTTP library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace reprise {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query
  std::string body = {};
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The error in OpenAI's shape; busy and unavailable carry a Retry-After.
HttpReply error_reply(int status, const Error& error);
HttpReply error_reply(const Error& error);  // the status of its kind

}  // namespace reprise
