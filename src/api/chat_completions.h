// /v1/chat/completions: OpenAI's JSON ↔ plain values.
#pragma once

#include <span>
#include <string>

#include "api/json.h"
#include "api/parameters.h"
#include "api/reply.h"
#include "base/result.h"

namespace reprise {

struct ChatRequest {
  // Not empty. Each is an object with a role that templates know (developer
  // has become system) and, where the client gave one, a content that is a
  // string or an array of text parts. All other keys are the client's.
  Json messages;
  Json template_kwargs = Json::object();  // enable_thinking among them
  // "low" and the like, for a template that knows it; empty: not given. "none"
  // has become enable_thinking: false.
  std::string reasoning_effort = {};
  bool reasoning_in_content = false;  // "reasoning_format": "none"
  GenerationParameters parameters;
};

// `body` is an object; `vocabulary` is the number of token ids. Errors: invalid
// and unsupported, with the place ("messages[2].content[0]"), the value and
// what is accepted.
Result<ChatRequest> parse_chat_request(const Json& body, int vocabulary);

// Not streamed; the choices in order, at least one.
Json chat_reply(const ReplyHead& head, std::span<const ReplyPart> choices,
                const ReplyEnd& end);

// Streamed: the first part opens with the role, the last has no text.
Json chat_chunk(const ReplyHead& head, const ReplyPart& part);
inline constexpr char kChatChunkObject[] = "chat.completion.chunk";

}  // namespace reprise
