// A reply's tokens → its text, piece by piece, for one client. Never gives
// half a character, never gives a part of a stop string, and what it held
// back comes out of finish(). Not thread-safe; one object a reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace reprise {

struct TokenStreamOptions {
  // The text ends before the first that appears; empty ones are ignored.
  std::vector<std::string> stop_strings = {};
  bool include_stop = false;  // it ends behind it instead
  // The text of the first so many tokens is not searched.
  int stops_after_tokens = 0;
  // A special token is shown if one of these has its text in it.
  std::vector<std::string> shown_marks = {};
};

class TokenStream {
 public:
  // Special tokens are not shown, but for marks.
  TokenStream(std::shared_ptr<const Tokenizer> tokenizer,
              TokenStreamOptions options = {});
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;

  // The text that is certain now, possibly empty. After a stop string was
  // met, always empty. An id past the tokenizer's has no text: models pad
  // their vocabulary. Throws std::runtime_error for an id below 0.
  std::string push(TokenId token);

  // What was held back: a possible beginning of a stop string, and for an
  // incomplete character U+FFFD.
  std::string finish();

  bool stopped() const;  // a stop string was met

 private:
  bool shows(TokenId token) const;
  std::string special_text(TokenId token) const;
  std::string next(TokenId token);
  std::string rest();

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
