// What the tests of this folder share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace reprise::testing {

std::string fixture_path(const std::string& name);
nlohmann::ordered_json read_fixture(const std::string& name);

// From a tokenizer.json below tests/fixtures, loaded once.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& name);

// The one that is like SentencePiece: its decoder falls back to bytes.
std::shared_ptr<const Tokenizer> metaspace_tokenizer();

// Every byte a token, named as byte-level vocabularies do, then "ab", "abc"
// and the controls "<bos>" and "<eos>".
GgufVocabulary tiny_vocabulary(const std::string& pre = "gpt-2");

}  // namespace reprise::testing
