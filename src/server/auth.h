// Who may use the server: API keys, as OpenAI's and Anthropic's clients send
// them. Pure. No message here ever holds a key, neither ours nor a client's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http.h"

namespace reprise {

// A key is printable ASCII without spaces, or no client could send it.
// Errors: invalid, naming `from` (a flag, or a file and its line).
Result<void> check_api_key(const std::string& key, const std::string& from);

// One key a line; blank lines and lines that start with # count for nothing,
// nor do spaces around a key. Errors: not_found; invalid for a file without a
// key, with the line for one that is none. Logs a warning where others than
// the file's owner may read it.
Result<std::vector<std::string>> read_api_keys(const std::string& file);

// Nothing if there are no keys, or the request brings one of them in
// `Authorization: Bearer` or `x-api-key`; else a 401. Open to everybody are
// /health, which orchestrators ask without secrets, and CORS preflights, in
// which browsers send none. GET / is not: who may not ask need not know what
// is served here, in which version. The time it takes says nothing about how
// much of a key was right.
std::optional<HttpReply> refuse_without_key(
    const HttpRequest& head, const std::vector<std::string>& keys);

}  // namespace reprise
