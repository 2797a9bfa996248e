// /v1/completions: OpenAI's JSON ↔ plain values.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/json.h"
#include "api/parameters.h"
#include "api/reply.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

// Text to be tokenized, or ids that are all in the vocabulary. Not empty.
using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  std::vector<CompletionPrompt> prompts;  // times n: at most kChoicesMax
  GenerationParameters parameters;
};

// `body` is an object; `vocabulary` is the number of token ids. A prompt is a
// string, token ids, or an array of either. Errors: as parse_chat_request; a
// bad id is named with its place and the limit.
Result<CompletionRequest> parse_completion_request(const Json& body,
                                                   int vocabulary);

// Not streamed; the choices in order, at least one: all of the first prompt,
// then all of the second. With return_token_ids the prompts' ids stand in the
// choices, as vLLM has them, and the first one's beside them, where chat
// replies have them.
Json completion_reply(const ReplyHead& head, std::span<const ReplyPart> choices,
                      const ReplyEnd& end);

Json completion_chunk(const ReplyHead& head, const ReplyPart& part);
inline constexpr char kCompletionObject[] = "text_completion";

}  // namespace reprise
