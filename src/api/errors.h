// Errors as OpenAI's clients expect them, and the HTTP status of each kind.
#pragma once

#include <string>

#include "api/json.h"
#include "base/error.h"

namespace reprise {

// 4xx where the client can do something about it, 5xx where only we can.
int http_status(const Error& error);

// {"error": {"message", "type", "param", "code"}}; param and code are null
// where the error has none. `type` follows from the status.
Json error_body(int status, const Error& error);

// Any JSON value as text, safe to send: a string that is not UTF-8 (a bug of
// ours) gets U+FFFD instead of an exception.
std::string dump(const Json& value);

}  // namespace reprise
