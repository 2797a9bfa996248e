// Thinking models: which marks a template's model puts around its thoughts,
// and a reply's text taken apart at them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

struct ReasoningMarks {
  std::string open;   // "<think>"
  std::string close;  // "</think>"

  std::vector<std::string> both() const { return {open, close}; }
};

// The marks that the template's source has, or nothing: its model does not
// think, as far as we know.
std::optional<ReasoningMarks> find_reasoning_marks(
    std::string_view template_source);

enum class ReplyStart {
  open,     // the reply decides: a thought if it begins with the mark
  thought,  // the prompt ends inside one
  content,  // the prompt ends behind one
};

// Where a reply to this prompt begins.
ReplyStart reply_start(const ReasoningMarks& marks, std::string_view prompt);

// One reply's text, in pieces, into thought and content. What may be a part of
// a mark is held back, so how the text was cut plays no part. A thought loses
// the white space at its two ends, and the content that before it; a thought
// without its end is all thought. Not thread-safe; one object a reply.
class ReasoningSplitter {
 public:
  struct Piece {
    std::string reasoning;
    std::string content;
  };

  ReasoningSplitter(ReasoningMarks marks, ReplyStart start);

  Piece push(std::string_view text);
  Piece finish();  // what was held back

  bool thinking() const { return state_ == State::thought; }

 private:
  enum class State { undecided, thought, content };

  void decide();                        // from the text so far
  void read_thought(std::string& out);  // what is certainly inside
  std::string read_content();           // all of the text so far

  const ReasoningMarks marks_;
  State state_;
  bool trims_ = false;  // white space comes next, and is dropped
  std::string held_;
};

}  // namespace reprise
