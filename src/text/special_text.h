// Keeps special tokens that a client wrote from becoming special tokens when
// they pass through a chat template: their text is broken by a character that
// Unicode keeps out of texts, and made whole again behind the template, where
// the template's own special tokens are known.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace reprise {

// The special tokens' texts, as a tree of bytes. Immutable; any thread.
class SpecialText {
 public:
  explicit SpecialText(const std::vector<std::string>& tokens);

  // Whether a special token begins anywhere in the text.
  bool appears_in(std::string_view text) const;

  enum class Thinking { broken, whole };
  // The text with `mark` behind the first character of every special token in
  // it. Thinking::whole leaves those that mark reasoning ("<think>"): in a
  // reply that is sent back they mean what they say, and templates look for
  // them. Tokens of a single character cannot be broken.
  std::string broken(std::string_view text, std::string_view mark,
                     Thinking thinking) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int>> children;
    bool ends = false;      // a token ends here
    bool thinking = false;  // and it marks reasoning
  };
  // Whether a token stands at the beginning of the text.
  bool begins(std::string_view text, Thinking thinking) const;

  std::vector<Node> nodes_;
};

// Breaks the client's values of one request, then cleans what was made of
// them. One object a request.
class SpecialBreaker {
 public:
  // `inputs`: all that will be broken; a mark that does not appear in it is
  // chosen. Errors: invalid if there is none left.
  static Result<SpecialBreaker> make(
      const SpecialText& specials,
      const std::vector<const nlohmann::ordered_json*>& inputs);

  // All strings and keys inside.
  void apply(nlohmann::ordered_json& value) const;

  // The same for a list of messages; an assistant's keep their thinking
  // marks.
  void apply_messages(nlohmann::ordered_json& messages) const;

  // Takes the marks out, also where a template wrote them escaped.
  std::string clean(std::string_view text) const;

 private:
  void apply(nlohmann::ordered_json& value, SpecialText::Thinking t) const;

  const SpecialText* specials_ = nullptr;
  std::string mark_;  // empty: nothing to break
  std::vector<std::string> forms_;
};

}  // namespace reprise
