// One local user's chat with the engine, without HTTP: what `reprise chat`
// and `reprise run` share.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "text_model.h"

namespace reprise {

struct GenerateOptions {
  SamplingParams sampling{.temperature = 0.0f};
  int max_tokens = 0;  // 0: to the end of the context
};

// Prints text through `write` as it is certain, and blocks until the reply has
// ended. Returns the whole reply and how it went. `interrupted` is asked now
// and then; true cancels the reply, which then ends as it stands.
struct Reply {
  std::string text;
  Finish finish;
};
Result<Reply> generate(Engine& engine, const TextModel& text,
                       std::vector<TokenId> prompt,
                       const GenerateOptions& options,
                       const std::function<void(const std::string&)>& write,
                       const std::function<bool()>& interrupted);

// "12 prompt tokens (8 cached), first token 35 ms, 24 tokens at 61.0/s".
std::string describe(const Finish& finish);

}  // namespace reprise
