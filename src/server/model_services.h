// What the server needs to know of a loaded model: names, text and numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "request/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace reprise {

struct ModelServices {
  std::string id;  // the name that clients use
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: no chat
  std::vector<TokenId> eos;                           // each ends a reply
  int context_tokens = 0;    // prompt + reply: what the engine will accept, so
                             // the smaller of context and state memory
  int vocabulary = 0;        // token ids in prompts are below this
  std::int64_t created = 0;  // Unix time, seconds
  // The engine keeps snapshots: its requests say where messages begin.
  bool keeps_snapshots = false;
};

}  // namespace reprise
