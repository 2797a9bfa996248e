// A model's chat template (Jinja, as transformers runs it) → prompt ids.
// Immutable after loading and safe from any thread. JSON is the ordered kind,
// since templates print objects in the order in which a client wrote them;
// the plain kind converts, sorted by key. How deep values are nested is for
// the caller to bound (64 is fine).
#pragma once

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace reprise {

class ChatTemplate {
 public:
  // Compiles the source. `specials`: variables every template may use, such
  // as bos_token and eos_token. Errors: invalid with the template's line.
  static Result<std::shared_ptr<const ChatTemplate>> compile(
      const std::string& source, const nlohmann::ordered_json& specials);
  ~ChatTemplate();

  // Renders with this context (messages, add_generation_prompt, ...) and the
  // specials. `now`: Unix time for strftime_now, which shows it in the
  // machine's time zone. Errors: invalid (raise_exception's text, or the
  // line).
  Result<std::string> render(const nlohmann::ordered_json& context,
                             long now) const;

  struct ChatOptions {
    nlohmann::ordered_json tools = nullptr;
    nlohmann::ordered_json extra =
        nlohmann::ordered_json::object();  // chat_template_kwargs
    bool add_generation_prompt = true;
    int tokens_max =
        std::numeric_limits<int>::max();  // as Tokenizer::encode_prompt
  };
  // Messages as a client sent them (OpenAI's shape) → prompt ids. Prepares
  // messages as transformers does (null keys dropped, text parts joined where
  // the template reads strings only, tool-call arguments parsed). Special
  // tokens that a client wrote stay text; those of the template are parsed.
  // A BOS that both template and tokenizer would add stands once; where the
  // template writes none, only a GGUF vocabulary's add_bos adds it, as the
  // reference implementation of each format does.
  // Errors: invalid with the place ("messages[2].content"), unsupported for
  // images and other media.
  Result<std::vector<TokenId>> encode_chat(
      const nlohmann::ordered_json& messages, const ChatOptions& options,
      const Tokenizer& tokenizer) const;

  // The same with the text that the ids come from. In the text nothing tells
  // a special token of the template from one that a client spelled: only the
  // ids are safe to compute with.
  struct RenderedChat {
    std::string text;
    std::vector<TokenId> ids;
  };
  Result<RenderedChat> render_chat(const nlohmann::ordered_json& messages,
                                   const ChatOptions& options,
                                   const Tokenizer& tokenizer) const;

  // What its model puts around thoughts, or nothing.
  const std::optional<ReasoningMarks>& reasoning_marks() const;

  // Whether the source has this word: an argument by this name does something.
  bool mentions(std::string_view word) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reprise
