// Text ↔ token ids. Immutable after loading and safe from any thread.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/request.h"

namespace reprise {

// A GGUF file's own vocabulary (tokenizer.ggml.*), as its reader found it.
struct GgufVocabulary {
  std::string model;  // "gpt2", ...
  std::string pre;    // "smollm", "llama-bpe", ...
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  // 1 normal, 3 control, 4 user defined
  std::vector<std::string> merges;  // "a b"
  bool add_bos = false;
  TokenId bos = -1;
  TokenId eos = -1;
};

class Tokenizer {
 public:
  // Hugging Face's tokenizer.json. Errors: not_found, corrupt, unsupported.
  static Result<std::shared_ptr<const Tokenizer>> from_file(
      const std::string& path);
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(
      const GgufVocabulary& vocabulary);

  ~Tokenizer();

  enum class Specials {
    text,   // "<|im_end|>" in the text is ten ordinary characters
    parse,  // special tokens in the text become their ids
  };
  // No BOS is added here. Errors: invalid for text that is not UTF-8.
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      Specials specials) const;

  // Errors: invalid with the id if one is outside the vocabulary. Special
  // tokens are left out if skip_specials.
  Result<std::string> decode(std::span<const TokenId> ids,
                             bool skip_specials) const;

  // What a token stands for between others, which may be a part of a
  // character; a special token's own text. Empty for an id without a token.
  std::string token_bytes(TokenId id) const;

  // Splits where special tokens stand, tokenizes each piece between them
  // once and remembers the result (bounded, thread-safe). A large text that
  // certainly has more than tokens_max is refused before that costs anything
  // (context_length_exceeded); others may come out longer.
  Result<std::vector<TokenId>> encode_prompt(
      std::string_view text,
      int tokens_max = std::numeric_limits<int>::max()) const;

  // The id of a token by its exact text, or -1.
  TokenId token_id(std::string_view token) const;
  bool is_special(TokenId id) const;
  int size() const;  // ids are 0 .. size() - 1
  std::vector<std::string> special_tokens() const;

  // What the tokenizer's own rules put before a plain prompt (not a chat: its
  // template does that), or -1: add_bos of a GGUF vocabulary, the
  // post-processor of a tokenizer.json. A prompt that begins with it already
  // is left as it is.
  TokenId prompt_bos() const;
  // Puts prompt_bos() before the ids of a plain prompt where it is due.
  void begin_prompt(std::vector<TokenId>& ids) const;

 private:
  friend class ChatTemplate;
  friend class TokenStream;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reprise
