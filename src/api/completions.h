// /v1/completions: OpenAI's JSON ↔ plain values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "api/json.h"
#include "api/parameters.h"
#include "api/reply.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

struct CompletionRequest {
  // Text to be tokenized, or ids that are all in the vocabulary. Not empty.
  std::variant<std::string, std::vector<TokenId>> prompt;
  GenerationParameters parameters;
};

// `body` is an object; `vocabulary` is the number of token ids. A prompt is a
// string, token ids, or an array of one of either. Errors: as
// parse_chat_request; a bad id is named with its place and the limit.
Result<CompletionRequest> parse_completion_request(const Json& body,
                                                   int vocabulary);

// Not streamed. With return_token_ids the prompt's ids stand in the choice,
// as vLLM has them, and beside the choices, where chat replies have them.
Json completion_reply(const ReplyHead& head, const ReplyPart& whole);

Json completion_chunk(const ReplyHead& head, const ReplyPart& part);
inline constexpr char kCompletionObject[] = "text_completion";

}  // namespace reprise
