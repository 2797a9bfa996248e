// `logit_bias`, as OpenAI and as llama.cpp spell it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "request/request.h"

namespace reprise {

inline constexpr std::size_t kLogitBiasMax = 1024;       // entries
inline constexpr std::size_t kLogitBiasBytesMax = 1024;  // of one text

// For every token of a text, as it is tokenized alone; special tokens' names
// in it are text.
struct TextBias {
  std::string text;
  float bias = 0;
};

struct LogitBias {
  std::vector<TokenBias> tokens;  // each once: of two, the later one counts
  std::vector<TextBias> texts;
};

// {"123": 5} or [[123, 5], ["text", false]]: a bias from -100 to 100; false, in
// the array, means never. `body` is an object. Errors: invalid, with the entry
// and the limit.
Result<LogitBias> read_logit_bias(const Json& body, int vocabulary);

// Sets the token's bias in the list, in place of one that it has.
void set_bias(std::vector<TokenBias>& biases, TokenBias bias);

}  // namespace reprise
