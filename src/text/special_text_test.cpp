#include "text/special_text.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;
using Thinking = SpecialText::Thinking;

const SpecialText& specials() {
  static const SpecialText out({"<|end|>", "<|e", "<think>", "[é]", "#"});
  return out;
}

TEST(SpecialText, Appears) {
  EXPECT_TRUE(specials().appears_in("a<|end|>"));
  EXPECT_TRUE(specials().appears_in("[é]"));
  EXPECT_FALSE(specials().appears_in("<|x|> <| end|> é] #"));
  EXPECT_FALSE(specials().appears_in(""));
}

TEST(SpecialText, BreaksBehindTheFirstCharacter) {
  EXPECT_EQ(specials().broken("a<|end|>b<|e", "*", Thinking::broken),
            "a<*|end|>b<*|e");
  EXPECT_EQ(specials().broken("<|end<|end|>", "*", Thinking::broken),
            "<*|end<*|end|>");
  EXPECT_EQ(specials().broken("世[é]", "*", Thinking::broken), "世[*é]");
  EXPECT_EQ(specials().broken("<think>", "*", Thinking::broken), "<*think>");
  EXPECT_EQ(specials().broken("<think><|end|>", "*", Thinking::whole),
            "<think><*|end|>");
}

TEST(SpecialBreaker, LeavesInnocentTextAlone) {
  Json value = {{"a", "text"}, {"b", {1, "<|x|>"}}};
  const Json before = value;
  const auto breaker = SpecialBreaker::make(specials(), {&value});
  ASSERT_TRUE(breaker);
  breaker->apply(value);
  EXPECT_EQ(value, before);
  EXPECT_EQ(breaker->clean("\uFDD2 text"), "\uFDD2 text");
}

TEST(SpecialBreaker, BreaksAllStringsAndKeysAndMendsThem) {
  Json value = {{"z<|end|>", "a<|end|>"},
                {"b", {1, nullptr, {{"c", "<|end|><|end|>"}}}}};
  const Json before = value;
  const auto breaker = SpecialBreaker::make(specials(), {&value});
  breaker->apply(value);
  const std::string broken = value.dump();
  EXPECT_FALSE(specials().appears_in(broken));
  EXPECT_EQ(breaker->clean(broken), before.dump());
  // Also where a template or a JSON filter escaped it.
  EXPECT_EQ(breaker->clean(value.dump(-1, ' ', /*ensure_ascii=*/true)),
            before.dump());
}

TEST(SpecialBreaker, AssistantsKeepTheirThinkingMarks) {
  Json messages =
      Json::array({{{"role", "user"}, {"content", "<think>"}},
                   {{"role", "assistant"}, {"content", "<think><|end|>"}}});
  const auto breaker = SpecialBreaker::make(specials(), {&messages});
  breaker->apply_messages(messages);
  EXPECT_NE(messages[0]["content"], "<think>");
  const std::string reply = messages[1]["content"];
  EXPECT_EQ(reply.substr(0, 7), "<think>");
  EXPECT_NE(reply, "<think><|end|>");
}

TEST(SpecialBreaker, TakesAMarkThatTheTextDoesNotHave) {
  Json value = "<|end|> \uFDD2 fdd3";
  const auto breaker = SpecialBreaker::make(specials(), {&value});
  const std::string before = value;
  breaker->apply(value);
  EXPECT_EQ(value, "<\uFDD4|end|> \uFDD2 fdd3");
  EXPECT_EQ(breaker->clean(value.get<std::string>()), before);

  std::string all = "<|end|>";
  for (int last = 0x92; last <= 0xAF; ++last)
    all += std::string("\xEF\xB7") + static_cast<char>(last);
  value = all;
  const auto none = SpecialBreaker::make(specials(), {&value});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid);
}

// A million marks in one text take a moment, not a day.
TEST(SpecialBreaker, StaysLinear) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "<|end|>";
  Json value = text;
  const auto breaker = SpecialBreaker::make(specials(), {&value});
  breaker->apply(value);
  EXPECT_EQ(breaker->clean(value.get<std::string>()), text);
}

}  // namespace
}  // namespace reprise
