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
};

namespace {

void check(int status) {
  if (status != REPRISE_OK)
    throw std::runtime_error("[TokenStream] " + crate::error(status).message);
}

}  // namespace

TokenStream::TokenStream(std::shared_ptr<const Tokenizer> tokenizer,
                         std::vector<std::string> stop_strings) {
  reprise_stream* stream = nullptr;
  check(reprise_stream_new(&stream));
  state_.reset(new State{std::move(tokenizer),
                         crate::Owned<reprise_stream>(stream),
                         StopMatcher(std::move(stop_strings))});
}

TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;

std::string TokenStream::push(TokenId token) {
  const Tokenizer& tokenizer = *state_->tokenizer;
  if (token < 0)
    throw std::runtime_error(
        fmt::format("[TokenStream::push] {} is no token id", token));
  if (token >= tokenizer.size() || stopped()) return "";
  reprise_buffer text{};
  check(reprise_stream_push(state_->stream.get(),
                            tokenizer.state_->handle.get(),
                            static_cast<std::uint32_t>(token), &text));
  return state_->stops.push(crate::take(text));
}

std::string TokenStream::finish() {
  if (stopped()) return "";
  reprise_buffer text{};
  check(reprise_stream_finish(state_->stream.get(),
                              state_->tokenizer->state_->handle.get(), &text));
  std::string out = state_->stops.push(crate::take(text));
  if (!stopped()) out += state_->stops.finish();
  return out;
}

bool TokenStream::stopped() const {
  return state_->stops.stopped();
}

}  // namespace reprise
