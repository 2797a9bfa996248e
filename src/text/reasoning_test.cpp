#include "text/reasoning.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

const ReasoningMarks kThink{"<think>", "</think>"};

struct Parts {
  std::string reasoning;
  std::string content;
  bool operator==(const Parts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Parts& parts) {
  return out << '"' << parts.reasoning << "\" | \"" << parts.content << '"';
}

// The text cut into pieces of this many bytes.
Parts split(std::string_view text, std::size_t cut, ReplyStart start) {
  ReasoningSplitter splitter(kThink, start);
  Parts out;
  const auto add = [&](const ReasoningSplitter::Piece& piece) {
    out.reasoning += piece.reasoning;
    out.content += piece.content;
  };
  for (std::size_t i = 0; i < text.size(); i += cut)
    add(splitter.push(text.substr(i, cut)));
  add(splitter.finish());
  return out;
}

struct Case {
  const char* text;
  ReplyStart start;
  Parts parts;
};

TEST(Reasoning, IsSplitHoweverTheTextWasCut) {
  const Case cases[] = {
      {"<think>\nwhy\n</think>\n\nyes", ReplyStart::open, {"why", "yes"}},
      {"\n <think>why</think>yes", ReplyStart::open, {"why", "yes"}},
      {"why not\n\n</think>\n\n yes ",
       ReplyStart::thought,
       {"why not", "yes "}},
      {"\nwhy\n\nnot</think>", ReplyStart::thought, {"why\n\nnot", ""}},
      {"<think></think>yes", ReplyStart::open, {"", "yes"}},
      {"</think>yes", ReplyStart::thought, {"", "yes"}},
      {"just <think>so</think>",
       ReplyStart::open,
       {"", "just <think>so</think>"}},
      {"<think>x</think>a<think>b</think>",
       ReplyStart::open,
       {"x", "a<think>b</think>"}},
      {"<think>x</think>y", ReplyStart::content, {"", "<think>x</think>y"}},
      {"  yes", ReplyStart::content, {"", "  yes"}},
      {"  yes", ReplyStart::open, {"", "  yes"}},
      {"<think>a < b </thin c", ReplyStart::open, {"a < b </thin c", ""}},
      {"<think>unclosed </thi", ReplyStart::open, {"unclosed </thi", ""}},
      {"<think>a<</think>b", ReplyStart::open, {"a<", "b"}},
      {"<thin", ReplyStart::open, {"", "<thin"}},
      {"<thinner", ReplyStart::open, {"", "<thinner"}},
      {"<think> \n", ReplyStart::open, {"", ""}},
      {"", ReplyStart::open, {"", ""}}};
  for (const auto& c : cases)
    for (const std::size_t cut : {1u, 2u, 3u, 5u, 100u})
      EXPECT_EQ(split(c.text, cut, c.start), c.parts)
          << c.text << " in pieces of " << cut;
}

TEST(Reasoning, OnlyWhatMayBeAMarkWaits) {
  ReasoningSplitter splitter(kThink, ReplyStart::thought);
  EXPECT_TRUE(splitter.thinking());
  EXPECT_EQ(splitter.push("ab").reasoning, "ab");
  EXPECT_EQ(splitter.push(" </th").reasoning, "");
  EXPECT_EQ(splitter.push("x").reasoning, " </thx");
  EXPECT_EQ(splitter.push("</think").reasoning, "");
  EXPECT_TRUE(splitter.thinking());
  EXPECT_EQ(splitter.push(">c").content, "c");
  EXPECT_FALSE(splitter.thinking());
  EXPECT_EQ(splitter.push("</think>").content, "</think>");
}

TEST(Reasoning, MarksAreFoundInTemplates) {
  const auto open_mark = [](const char* source) {
    const auto marks = find_reasoning_marks(source);
    return marks ? marks->open : "";
  };
  EXPECT_EQ(open_mark("{{ '<think>\n' }}"), "<think>");
  EXPECT_EQ(open_mark("{{ m.content.split('</think>')[-1] }}"), "<think>");
  EXPECT_EQ(open_mark("{{ '[THINK]' }}"), "[THINK]");
  EXPECT_EQ(open_mark("{{ '<|channel>thought\n' }}"), "<|channel>thought");
  EXPECT_EQ(open_mark("{{ 'I think <b>' }}"), "");
}

TEST(Reasoning, ThePromptsEndSaysWhereTheReplyBegins) {
  const auto start = [](std::string_view prompt) {
    return reply_start(kThink, prompt);
  };
  EXPECT_EQ(start("<|assistant|>"), ReplyStart::open);
  EXPECT_EQ(start("<|assistant|><think>\n"), ReplyStart::thought);
  EXPECT_EQ(start("<|assistant|>\n<think>\n\n</think>\n\n"),
            ReplyStart::content);
  EXPECT_EQ(start("a user wrote <think>\n<|assistant|>"), ReplyStart::open);
  EXPECT_EQ(start(""), ReplyStart::open);
}

}  // namespace
}  // namespace reprise
