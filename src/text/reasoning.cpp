#include "text/reasoning.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr char kSpace[] = " \t\n\r\f\v";

struct KnownMarks {
  const char* open;
  const char* close;
};
// As the templates of models that think spell them.
constexpr KnownMarks kKnownMarks[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|channel>thought", "<channel|>"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

std::string_view without_end_space(std::string_view text) {
  const auto last = text.find_last_not_of(kSpace);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// The text's end that the mark may begin with.
std::size_t possible_beginning(std::string_view text, std::string_view mark) {
  auto size = std::min(text.size(), mark.size() - 1);
  while (size > 0 && !text.ends_with(mark.substr(0, size))) --size;
  return size;
}

}  // namespace

std::optional<ReasoningMarks> find_reasoning_marks(std::string_view source) {
  for (const auto& [open, close] : kKnownMarks)
    if (source.find(open) != std::string_view::npos ||
        source.find(close) != std::string_view::npos)
      return ReasoningMarks{open, close};
  return std::nullopt;
}

ReplyStart reply_start(const ReasoningMarks& marks, std::string_view prompt) {
  const auto end = without_end_space(prompt);
  if (end.ends_with(marks.close)) return ReplyStart::content;
  return end.ends_with(marks.open) ? ReplyStart::thought : ReplyStart::open;
}

ReasoningSplitter::ReasoningSplitter(ReasoningMarks marks, ReplyStart start)
    : marks_(std::move(marks)),
      state_(start == ReplyStart::thought   ? State::thought
             : start == ReplyStart::content ? State::content
                                            : State::undecided),
      trims_(start == ReplyStart::thought) {}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  Piece piece;
  if (state_ == State::undecided) decide();
  if (state_ == State::thought) read_thought(piece.reasoning);
  if (state_ == State::content) piece.content = read_content();
  return piece;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece piece;
  auto& out = thinking() ? piece.reasoning : piece.content;
  out = std::exchange(held_, {});
  if (thinking()) out = without_end_space(out);
  return piece;
}

void ReasoningSplitter::decide() {
  const auto begin = held_.find_first_not_of(kSpace);
  if (begin == std::string::npos) return;
  const auto rest = std::string_view(held_).substr(begin);
  const std::string_view open = marks_.open;
  if (rest.starts_with(open)) {
    held_.erase(0, begin + open.size());
    state_ = State::thought;
    trims_ = true;
  } else if (!open.starts_with(rest)) {
    state_ = State::content;
  }
}

void ReasoningSplitter::read_thought(std::string& out) {
  if (trims_) {
    const auto begin = held_.find_first_not_of(kSpace);
    held_.erase(0, begin);
    trims_ = held_.empty();
  }
  const auto close = held_.find(marks_.close);
  if (close != std::string::npos) {
    out = without_end_space(std::string_view(held_).substr(0, close));
    held_.erase(0, close + marks_.close.size());
    state_ = State::content;
    trims_ = true;
    return;
  }
  // Space before a mark that may still come waits with it.
  auto certain = std::string_view(held_);
  certain.remove_suffix(possible_beginning(certain, marks_.close));
  out = without_end_space(certain);
  held_.erase(0, out.size());
}

std::string ReasoningSplitter::read_content() {
  if (trims_) {
    held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
    trims_ = held_.empty();
  }
  return std::exchange(held_, {});
}

}  // namespace reprise
