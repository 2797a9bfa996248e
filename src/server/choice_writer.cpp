#include "server/choice_writer.h"

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

TokenStreamOptions stream_options(const PreparedReply& reply) {
  const auto& parameters = reply.parameters;
  TokenStreamOptions options{.stop_strings = parameters.stop,
                             .include_stop = parameters.include_stop,
                             .stops_after_tokens = parameters.min_tokens};
  if (reply.reasoning) options.shown_marks = reply.reasoning->marks.both();
  return options;
}

// Of each token, the `top` likeliest: the engine was asked for the more of two
// counts.
std::vector<TokenLogprobs> cut(const std::vector<TokenLogprobs>& all, int top) {
  auto out = all;
  for (auto& logprobs : out)
    if (logprobs.top.size() > static_cast<std::size_t>(top))
      logprobs.top.resize(static_cast<std::size_t>(top));
  return out;
}

}  // namespace

void ChoiceWriter::CharacterCount::add(std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) {
      missing_ = std::max(missing_ - 1, 0);
      continue;
    }
    ++started_;
    missing_ = byte < 0xC0 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  }
}

ChoiceWriter::ChoiceWriter(EndpointKind kind, const PreparedReply& reply,
                           int choice, const ModelServices& model)
    : kind_(kind),
      reply_(reply),
      prompt_(reply.prompt_of(choice)),
      index_(choice),
      tokenizer_(model.tokenizer),
      bytes_of_([this](TokenId id) { return tokenizer_->token_bytes(id); }),
      text_(model.tokenizer, stream_options(reply)) {
  if (reply.reasoning && !reply.reasoning->in_content)
    splitter_.emplace(reply.reasoning->marks, reply.reasoning->start);
}

void ChoiceWriter::push(const PromptLogprobs& logprobs) {
  prompt_logprobs_.insert(prompt_logprobs_.end(), logprobs.tokens.begin(),
                          logprobs.tokens.end());
}

// With echo, the prompt comes before what is generated. Its log-probabilities
// are complete by then: the engine sends them first.
void ChoiceWriter::begin() {
  if (std::exchange(begun_, true) || !reply_.parameters.echo) return;
  text_out_ = prompt_.text;
  if (!reply_.parameters.logprobs) return;
  const auto logprobs = cut(prompt_logprobs_, *reply_.parameters.logprobs);
  const auto& ids = prompt_.request.prompt;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::optional<TokenLogprobs> of_token;
    if (i > 0 && i <= logprobs.size()) of_token = logprobs[i - 1];
    score(ids[i], std::move(of_token), i > 0 || !prompt_.hidden_bos);
  }
}

void ChoiceWriter::score(TokenId id, std::optional<TokenLogprobs> logprobs,
                         bool shown) {
  scored_.push_back({id, std::move(logprobs), characters_.whole()});
  if (shown && kind_ == EndpointKind::completions)
    characters_.add(bytes_of_(id));
}

// A token that ends the reply is counted, and not shown, whatever the
// tokenizer thinks of it, unless the client wants to see what it named.
bool ChoiceWriter::shows(TokenId token) const {
  if (!contains(prompt_.request.stop_tokens, token)) return true;
  return reply_.parameters.include_stop &&
         contains(reply_.parameters.stop_token_ids, token);
}

void ChoiceWriter::add_text(std::string text) {
  if (!splitter_) {
    text_out_ += text;
    return;
  }
  auto piece = splitter_->push(text);
  reasoning_ += piece.reasoning;
  text_out_ += piece.content;
}

void ChoiceWriter::push(const SampledToken& token) {
  if (stopped()) return;
  begin();
  ++completion_tokens_;
  ids_.push_back(token.id);
  const bool shown = shows(token.id);
  if (token.logprobs)
    score(token.id, token.logprobs, shown && !tokenizer_->is_special(token.id));
  if (!shown) return;
  const bool thought_before = splitter_ && splitter_->thinking();
  add_text(text_.push(token.id));
  if (thought_before && splitter_->thinking()) ++reasoning_tokens_;
}

void ChoiceWriter::finish(const Finish& finish) {
  begin();
  finish_ = finish;
  end_.length = finish.reason == FinishReason::length && !stopped();
  if (reply_.choices() > 1) end_.cache = &finish_->cache;
  add_text(text_.finish());
  if (!splitter_) return;
  auto rest = splitter_->finish();
  reasoning_ += rest.reasoning;
  text_out_ += rest.content;
}

Json ChoiceWriter::logprobs_json() const {
  if (scored_.empty()) return nullptr;
  return kind_ == EndpointKind::chat ? chat_logprobs(scored_, bytes_of_)
                                     : completion_logprobs(scored_, bytes_of_);
}

Json ChoiceWriter::prompt_logprobs_json() const {
  if (!reply_.parameters.prompt_logprobs) return nullptr;
  const auto logprobs =
      cut(prompt_logprobs_, *reply_.parameters.prompt_logprobs);
  std::vector<ScoredToken> tokens;
  const auto& ids = prompt_.request.prompt;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    tokens.push_back({.id = ids[i], .logprobs = {}});
    if (i > 0 && i <= logprobs.size()) tokens.back().logprobs = logprobs[i - 1];
  }
  return prompt_logprobs(tokens, bytes_of_);
}

ReplyPart ChoiceWriter::opening() const {
  return {.index = index_,
          .first = true,
          .content_may_wait = splitter_.has_value(),
          .show_token_ids = reply_.parameters.return_token_ids,
          .prompt_token_ids = prompt_.request.prompt};
}

ReplyPart ChoiceWriter::take(bool last) {
  ReplyPart part = opening();
  part.first = false;
  part.text = std::exchange(text_out_, {});
  part.reasoning = std::exchange(reasoning_, {});
  part.logprobs = logprobs_json();
  scored_.clear();
  taken_ids_ = std::exchange(ids_, {});
  part.token_ids = taken_ids_;
  if (!last) return part;
  part.end = &end_;
  if (!reply_.parameters.stream) part.prompt_logprobs = prompt_logprobs_json();
  return part;
}

}  // namespace reprise
