// /apply-template: a chat's body without its parameters → the prompt's text.
#pragma once

#include <string>

#include "api/json.h"
#include "base/result.h"

namespace reprise {

// Whether the prompt ends with what calls for a reply: add_generation_prompt,
// true unless it is given. `body` is an object. Errors: invalid.
Result<bool> parse_generation_prompt(const Json& body);

// {prompt}
Json apply_template_reply(const std::string& prompt);

}  // namespace reprise
