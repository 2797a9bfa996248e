// For the tests of this folder: the text side of the tiny fixture model, whose
// ids are bytes ('!' is 0, 'A' is 32) and a few special tokens.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "server/model_services.h"

namespace reprise {

inline constexpr TokenId kTestEnd = 499;  // <|end|>, special
inline constexpr int kTestContext = 100;
inline constexpr int kTestVocabulary = 512;

inline ModelServices test_model() {
  const std::string folder = REPRISE_TINY_MODEL "/";
  std::stringstream source;
  source << std::ifstream(folder + "chat_template.jinja").rdbuf();
  return {.id = "org/tiny",
          .tokenizer = Tokenizer::from_file(folder + "tokenizer.json").value(),
          .chat_template = ChatTemplate::compile(source.str(), {}).value(),
          .eos = {kTestEnd},
          .context_tokens = kTestContext,
          .vocabulary = kTestVocabulary,
          .created = 1700000000};
}

// Printable ASCII without spaces → one id a character.
inline std::vector<TokenId> test_ids(const std::string& text) {
  std::vector<TokenId> out;
  for (const char c : text) out.push_back(c - '!');
  return out;
}

}  // namespace reprise
