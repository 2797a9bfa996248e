// /detokenize: JSON ↔ plain values.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

// {tokens: [ids]}. `body` is an object. Errors: invalid, with the place.
Result<std::vector<TokenId>> parse_detokenize_request(const Json& body,
                                                      int vocabulary);

// The text as llama.cpp calls it (content) and as vLLM does (prompt).
Json detokenize_reply(const std::string& text);

}  // namespace reprise
