#include "text/token_stream.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "text/crate.h"
#include "text/stop_matcher.h"
#include "text/tokenizer_state.h"

namespace reprise {

struct TokenStream::State {
  std::shared_ptr<const Tokenizer> tokenizer;
  crate::Owned<reprise_stream> stream;
  StopMatcher stops;
  TokenStreamOptions options;
  int tokens = 0;
};

namespace {

void check(int status) {
  if (status != REPRISE_OK)
    throw std::runtime_error("[TokenStream] " + crate::error(status).message);
}

}  // namespace

TokenStream::TokenStream(std::shared_ptr<const Tokenizer> tokenizer,
                         TokenStreamOptions options) {
  StopMatcher stops(std::move(options.stop_strings), options.include_stop);
  reprise_stream* stream = nullptr;
  check(reprise_stream_new(&stream));
  state_.reset(new State{std::move(tokenizer),
                         crate::Owned<reprise_stream>(stream), std::move(stops),
                         std::move(options)});
}

TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;

std::string TokenStream::push(TokenId token) {
  const Tokenizer& tokenizer = *state_->tokenizer;
  if (token < 0)
    throw std::runtime_error(
        fmt::format("[TokenStream::push] {} is no token id", token));
  if (token >= tokenizer.size() || stopped()) return "";
  std::string text = shows(token) ? rest() + special_text(token) : next(token);
  if (++state_->tokens <= state_->options.stops_after_tokens) return text;
  return state_->stops.push(text);
}

// A special token that is to be shown?
bool TokenStream::shows(TokenId token) const {
  if (state_->options.shown_marks.empty()) return false;
  if (!state_->tokenizer->is_special(token)) return false;
  const auto text = special_text(token);
  for (const auto& mark : state_->options.shown_marks)
    if (mark.find(text) != std::string::npos) return true;
  return false;
}

std::string TokenStream::special_text(TokenId token) const {
  return state_->tokenizer->token_bytes(token);
}

std::string TokenStream::next(TokenId token) {
  reprise_buffer text{};
  check(reprise_stream_push(state_->stream.get(),
                            state_->tokenizer->state_->handle.get(),
                            static_cast<std::uint32_t>(token), &text));
  return crate::take(text);
}

// What the decoder holds back; it begins anew.
std::string TokenStream::rest() {
  reprise_buffer text{};
  check(reprise_stream_finish(state_->stream.get(),
                              state_->tokenizer->state_->handle.get(), &text));
  return crate::take(text);
}

std::string TokenStream::finish() {
  if (stopped()) return "";
  std::string out = state_->stops.push(rest());
  if (!stopped()) out += state_->stops.finish();
  return out;
}

bool TokenStream::stopped() const {
  return state_->stops.stopped();
}

}  // namespace reprise
