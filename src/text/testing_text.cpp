#include "text/testing_text.h"

#include <fstream>
#include <map>
#include <stdexcept>

namespace reprise::testing {
namespace {

std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

std::string fixture_path(const std::string& name) {
  return REPRISE_SOURCE_DIR "/tests/fixtures/" + name;
}

nlohmann::ordered_json read_fixture(const std::string& name) {
  std::ifstream file(fixture_path(name));
  return nlohmann::ordered_json::parse(file);
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;
  auto& entry = loaded[name];
  if (!entry) {
    auto tokenizer = Tokenizer::from_file(fixture_path(name));
    if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
    entry = *tokenizer;
  }
  return entry;
}

std::shared_ptr<const Tokenizer> metaspace_tokenizer() {
  return load_tokenizer("text/metaspace_tokenizer.json");
}

GgufVocabulary tiny_vocabulary(const std::string& pre) {
  GgufVocabulary out;
  out.model = "gpt2";
  out.pre = pre;
  for (int byte = 0, moved = 256; byte < 256; ++byte) {
    // Bytes that are no visible Latin-1 characters have names from 256 on.
    const bool visible =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    out.tokens.push_back(utf8(visible ? byte : moved++));
  }
  for (const char* token : {"ab", "abc", "<bos>", "<eos>"})
    out.tokens.push_back(token);
  out.types.assign(out.tokens.size(), 1);
  out.types[258] = out.types[259] = 3;
  out.merges = {"a b", "ab c"};
  out.bos = 258;
  out.eos = 259;
  return out;
}

}  // namespace reprise::testing
