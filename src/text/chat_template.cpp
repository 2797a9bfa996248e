#include "text/chat_template.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "text/chat_messages.h"
#include "text/crate.h"
#include "text/special_text.h"
#include "text/tokenizer_state.h"

namespace reprise {

using Json = nlohmann::ordered_json;

struct ChatTemplate::State {
  crate::Owned<reprise_template> handle;
  Json specials;
  std::string source;
  std::optional<ReasoningMarks> marks;
  ContentForm form = ContentForm::string;
};

namespace {

// A word that no template writes by itself.
constexpr char kProbe[] = "qxprobezw";

Json probe_context(Json content) {
  return {{"messages", Json::array({{{"role", "user"}, {"content", content}}})},
          {"tools", nullptr},
          {"documents", nullptr},
          {"add_generation_prompt", true}};
}

// Most templates print the content; some walk over a list of parts, and of a
// string they would print nothing. Rendering tells, reading does not.
ContentForm probe(const ChatTemplate& compiled) {
  const auto text = compiled.render(probe_context(kProbe), 0);
  if (text && text->find(kProbe) != std::string::npos)
    return ContentForm::string;
  const auto parts = compiled.render(
      probe_context(Json::array({{{"type", "text"}, {"text", kProbe}}})), 0);
  const bool reads_parts = parts && parts->find(kProbe) != std::string::npos &&
                           parts->find("'type'") == std::string::npos &&
                           parts->find("\"type\"") == std::string::npos;
  return reads_parts ? ContentForm::parts : ContentForm::string;
}

long unix_time() {
  const auto now = std::chrono::system_clock::now();
  return static_cast<long>(std::chrono::system_clock::to_time_t(now));
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(
    const std::string& source, const Json& specials) {
  reprise_template* handle = nullptr;
  const int status = reprise_template_compile(crate::text(source), &handle);
  if (status != REPRISE_OK) return crate::error(status);
  auto state = std::make_unique<State>();
  state->handle.reset(handle);
  state->source = source;
  state->marks = find_reasoning_marks(source);
  state->specials = specials.is_object() ? specials : Json::object();
  auto* compiled = new ChatTemplate(std::move(state));
  std::shared_ptr<const ChatTemplate> out(compiled);
  compiled->state_->form = probe(*compiled);
  return out;
}

Result<std::string> ChatTemplate::render(const Json& context, long now) const {
  Json all = context.is_object() ? context : Json::object();
  for (const auto& [name, text] : state_->specials.items())
    if (!all.contains(name)) all[name] = text;
  std::string json;
  try {
    json = all.dump();
  } catch (const Json::exception&) {
    return Error{ErrorKind::invalid, "a message's text is not UTF-8"};
  }
  reprise_buffer text{};
  const int status = reprise_template_render(state_->handle.get(),
                                             crate::text(json), now, &text);
  if (status != REPRISE_OK) return crate::error(status);
  return crate::take(text);
}

const std::optional<ReasoningMarks>& ChatTemplate::reasoning_marks() const {
  return state_->marks;
}

bool ChatTemplate::mentions(std::string_view word) const {
  return state_->source.find(word) != std::string::npos;
}

Result<std::vector<TokenId>> ChatTemplate::encode_chat(
    const Json& messages, const ChatOptions& options,
    const Tokenizer& tokenizer) const {
  auto rendered = render_chat(messages, options, tokenizer);
  if (!rendered) return rendered.error();
  return std::move(rendered->ids);
}

Result<ChatTemplate::RenderedChat> ChatTemplate::render_chat(
    const Json& messages, const ChatOptions& options,
    const Tokenizer& tokenizer) const {
  const auto& text = *tokenizer.state_;
  auto prepared =
      prepare_messages(messages, state_->form, MissingContent::absent);
  if (!prepared) return prepared.error();
  // Of the prepared messages: joined parts and parsed arguments may spell what
  // no string of the client's did.
  const auto breaker = SpecialBreaker::make(
      text.special_text, {&*prepared, &options.tools, &options.extra});
  if (!breaker) return breaker.error();

  Json context = options.extra.is_object() ? options.extra : Json::object();
  breaker->apply(context);
  context["tools"] = options.tools;
  breaker->apply(context["tools"]);
  context["documents"] = nullptr;
  context["add_generation_prompt"] = options.add_generation_prompt;

  const auto render_with = [&](Json ready) -> Result<std::string> {
    breaker->apply_messages(ready);
    context["messages"] = std::move(ready);
    return render(context, unix_time());
  };
  auto rendered = render_with(*std::move(prepared));
  if (!rendered) {
    // A template that reads the content of every message stumbles over one
    // that only calls tools. If that was not it, the same error comes again.
    prepared = prepare_messages(messages, state_->form, MissingContent::empty);
    if (!prepared) return prepared.error();
    rendered = render_with(*std::move(prepared));
  }
  if (!rendered) return rendered.error();

  auto ids = text.encode_pieces(*rendered, &*breaker, options.tokens_max);
  if (!ids) return ids.error();
  if (text.chat_bos >= 0 && (ids->empty() || ids->front() != text.chat_bos))
    ids->insert(ids->begin(), text.chat_bos);
  return RenderedChat{breaker->clean(*rendered), std::move(*ids)};
}

}  // namespace reprise
