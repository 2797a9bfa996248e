// What the tests of this folder share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace reprise::testing {

std::string fixture_path(const std::string& name);
nlohmann::ordered_json read_fixture(const std::string& name);

// A byte-level vocabulary of 512 tokens with roles and thinking marks, and a
// SentencePiece-like one whose decoder falls back to bytes.
std::shared_ptr<const Tokenizer> byte_level_tokenizer();
std::shared_ptr<const Tokenizer> metaspace_tokenizer();

// The demo model's own file.
struct SmolLM2 {
  GgufVocabulary vocabulary;
  std::string chat_template;
};
SmolLM2 read_smollm2();

// Every byte a token, named as byte-level vocabularies do, then "ab", "abc"
// and the controls "<bos>" and "<eos>".
GgufVocabulary tiny_vocabulary(const std::string& pre = "gpt-2");

}  // namespace reprise::testing
