// /tokenize, as llama.cpp and as vLLM have it: JSON ↔ plain values.
#pragma once

#include <span>
#include <string>

#include "api/json.h"
#include "api/logprobs.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

struct TokenizeRequest {
  std::string text;
  bool add_special = false;    // put the tokenizer's own beginning before it
  bool parse_special = true;   // special tokens' names in it are those tokens
  bool with_pieces = false;    // tokens are {id, piece} (llama.cpp)
  bool token_strings = false;  // token_strs beside them (vLLM)
  bool is_chat = false;        // the body has messages instead of a text
};

// `body` is an object with a `content` (llama.cpp: nothing put before it unless
// add_special), a `prompt` (vLLM: as a completion's prompt unless
// add_special_tokens is false), or `messages`. Errors: invalid.
Result<TokenizeRequest> parse_tokenize_request(const Json& body);

// {tokens, count, max_model_len} and what else was asked for. A piece that is
// no whole text is an array of its bytes.
Json tokenize_reply(const TokenizeRequest& request,
                    std::span<const TokenId> ids, int context_tokens,
                    const TokenBytesOf& bytes_of);

}  // namespace reprise
