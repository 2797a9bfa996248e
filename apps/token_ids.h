// Token ids as people and scripts write them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "request/request.h"

namespace reprise {

// A JSON array of integers, or integers with white space between them. Errors:
// invalid, with what is no id and its place.
Result<std::vector<TokenId>> parse_token_ids(const std::string& text);

// The ids in a file; "-" is the standard input. Errors: not_found, too_large,
// and as parse_token_ids, with the file's name.
Result<std::vector<TokenId>> read_token_ids(const std::string& path);

}  // namespace reprise
