// Log-probabilities in the three shapes that clients know.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "api/json.h"
#include "request/event.h"

namespace reprise {

// JSON has no -infinity; vLLM sends this in its place.
inline constexpr float kLogprobMin = -9999.0f;

// A token of a prompt or a reply, with what the model thought of it; of a
// prompt's first token there is nothing to think.
struct ScoredToken {
  TokenId id = 0;
  std::optional<TokenLogprobs> logprobs;
  int text_offset = 0;  // characters of the choice's text before it
};

// A token's bytes, of which a character may be only a part.
using TokenBytesOf = std::function<std::string(TokenId)>;

// The text of the bytes; of bytes that are no whole text, escapes ("\xf0\x9f")
// or the array of them.
std::string text_or_escapes(const std::string& bytes);
Json text_or_bytes(const std::string& bytes);

// OpenAI's chats: {content: [{token, logprob, bytes, top_logprobs}], refusal}.
// A token that is no whole text is spelled "\xf0\x9f".
Json chat_logprobs(std::span<const ScoredToken> tokens,
                   const TokenBytesOf& bytes_of);

// OpenAI's completions: {tokens, token_logprobs, top_logprobs, text_offset}.
// A token that is no whole text is spelled "bytes:\xf0\x9f". The token itself
// stands in top_logprobs, too, if it is not among the likeliest.
Json completion_logprobs(std::span<const ScoredToken> tokens,
                         const TokenBytesOf& bytes_of);

// vLLM's prompt_logprobs: [null, {"id": {logprob, rank, decoded_token}}, ...].
Json prompt_logprobs(std::span<const ScoredToken> tokens,
                     const TokenBytesOf& bytes_of);

}  // namespace reprise
