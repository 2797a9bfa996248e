#include "api/detokenize.h"

#include "api/fields.h"

namespace reprise {

Result<std::vector<TokenId>> parse_detokenize_request(const Json& body,
                                                      int vocabulary) {
  const auto* tokens = find_field(body, "tokens");
  if (!tokens || !tokens->is_array())
    return wrong_value("tokens", tokens ? *tokens : Json(nullptr),
                       "an array of token ids");
  return read_token_ids(*tokens, "tokens", vocabulary, tokens->size());
}

Json detokenize_reply(const std::string& text) {
  return {{"content", text}, {"prompt", text}};
}

}  // namespace reprise
