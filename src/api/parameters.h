// The parameters that every generating endpoint shares, checked and in the
// engine's terms. Facts: OpenAI's API reference, llama.cpp's server README,
// vLLM's protocol for return_token_ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

inline constexpr std::size_t kStopStringsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1024;  // of one stop string

struct GenerationParameters {
  SamplingParams sampling;  // its seed is `seed` below where that is given
  std::optional<std::uint64_t> seed;
  std::optional<int> max_tokens;  // nothing: to the context's end
  std::vector<std::string> stop;  // none of them is empty
  bool stream = false;
  bool include_usage = false;  // of stream_options
  bool ignore_eos = false;
  bool cache_prompt = true;
  bool return_token_ids = false;
};

// `body` is an object. Unknown parameters are ignored. Errors: invalid for a
// wrong type or a value out of range, with parameter, value and limit;
// unsupported for a parameter that is known, not served yet, and asks for
// something that would change the reply.
Result<GenerationParameters> parse_parameters(const Json& body);

// The `model` that the client named, or empty. Errors: invalid.
Result<std::string> parse_model_name(const Json& body);

}  // namespace reprise
