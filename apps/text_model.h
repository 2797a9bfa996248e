// The text side of a model on disk: its tokenizer, its chat template and the
// tokens that end a reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace reprise {

struct TextModel {
  std::string id;  // what /v1/models calls it: the file's or folder's name
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: it has none
  std::vector<TokenId> end_tokens;

  // Once each; an id that the tokenizer does not have (-1: none) is left out.
  void add_end_token(TokenId id);
};

// Reads tokenizer.json, tokenizer_config.json, chat_template.jinja,
// generation_config.json and config.json of a folder, or the metadata of a
// GGUF file. Errors name the file.
Result<TextModel> load_text_model(const std::string& path);

}  // namespace reprise
