// One line about each request, without anything that a client said but the
// method, the path and the id it chose: no prompt, reply, key or header.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "server/http.h"

namespace reprise {

// What is known of a request; filled while it is answered.
struct RequestRecord {
  using Time = std::chrono::steady_clock::time_point;

  std::string id;
  std::string client;          // address
  std::string method = {};     // empty: it could not be read
  std::string path = {};       // decoded, without the query
  int status = 0;              // 499: the client left before there was one
  std::size_t bytes_sent = 0;  // head and body
  Time started = {};           // its first byte was read
  std::optional<Time> first_byte = {};  // of the reply was sent

  // Of generating endpoints, as far as it got.
  std::optional<int> prompt_tokens = {};
  std::optional<int> cached_tokens = {};
  std::optional<int> completion_tokens = {};
};

// The client's X-Request-Id if it is at most 128 visible ASCII characters,
// else a new one. Not thread-safe: the I/O thread.
std::string request_id(const HttpRequest& head);

// "request id=... client=127.0.0.1 method=POST path=/v1/completions status=200
// first_byte_ms=12.3 total_ms=45.6 bytes=789 prompt_tokens=..." in one line,
// "-" for what is not known.
std::string access_line(const RequestRecord& record, RequestRecord::Time ended);

}  // namespace reprise
