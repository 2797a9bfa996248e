// The parameters of the generating endpoints, checked and in the engine's
// terms. Facts: OpenAI's API reference, llama.cpp's server README, vLLM's
// protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/logit_bias.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

inline constexpr std::size_t kStopStringsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1024;  // of one stop string
inline constexpr std::size_t kStopTokensMax = 1024;
inline constexpr int kChoicesMax = 128;  // of one reply: prompts times n
inline constexpr int kTopLogprobsMax = 20;

// Chats and completions spell a few parameters differently.
enum class EndpointKind { chat, completions };

struct GenerationParameters {
  SamplingParams sampling;  // its seed is `seed` below where that is given
  std::vector<TextBias> text_bias;  // still to be tokenized
  std::optional<std::uint64_t> seed;
  std::optional<int> max_tokens;  // nothing: to the context's end
  int min_tokens = 0;             // at most max_tokens
  std::vector<std::string> stop;  // none of them is empty
  std::vector<TokenId> stop_token_ids;
  bool include_stop = false;  // show what stopped the reply
  int n = 1;                  // choices a prompt
  // How many of the likeliest tokens stand beside each token's log-probability;
  // nothing: none are wanted.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;  // of stream_options
  bool ignore_eos = false;
  bool cache_prompt = true;
  bool return_token_ids = false;
};

// `body` is an object; `vocabulary` is the number of token ids. Unknown
// parameters are ignored. Errors: invalid for a wrong type or a value out of
// range, with parameter, value and limit; unsupported for a parameter that is
// known, not served yet, and asks for something that would change the reply.
Result<GenerationParameters> parse_parameters(const Json& body,
                                              EndpointKind kind,
                                              int vocabulary);

// The `model` that the client named, or empty. Errors: invalid.
Result<std::string> parse_model_name(const Json& body);

}  // namespace reprise
