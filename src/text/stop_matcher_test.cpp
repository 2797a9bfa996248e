#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace reprise {
namespace {

// The rule without any cleverness: the shortest beginning of the text that
// ends in a stop string, without the longest such string.
std::string slow(const std::string& text,
                 const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops)
      if (!stop.empty() && text.substr(0, end).ends_with(stop))
        longest = std::max(longest, stop.size());
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

std::string push_all(StopMatcher& matcher, const std::string& text,
                     std::mt19937& random) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = random() % 4;
    out += matcher.push(std::string_view(text).substr(at, size));
    at += size;
  }
  return out + matcher.finish();
}

TEST(StopMatcher, AsTheSlowRuleHoweverTheTextIsCut) {
  std::mt19937 random(7);
  const auto word = [&](int size) {
    std::string out(size, ' ');
    for (char& c : out) c = static_cast<char>('a' + random() % 2);
    return out;
  };
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i)
      stops.push_back(word(random() % 7));
    const std::string text = word(random() % 40);
    StopMatcher matcher(stops);
    const std::string out = push_all(matcher, text, random);
    ASSERT_EQ(out, slow(text, stops))
        << text << " " << ::testing::PrintToString(stops);
    ASSERT_EQ(matcher.stopped(), out != text);
    stopped += matcher.stopped();
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 2950);
}

TEST(StopMatcher, GivesAllThatIsCertain) {
  StopMatcher matcher({"</end>"});
  EXPECT_EQ(matcher.push("text <"), "text ");
  EXPECT_EQ(matcher.push("/en"), "");
  EXPECT_EQ(matcher.push("<"), "</en");
  EXPECT_EQ(matcher.push("/end"), "");
  EXPECT_EQ(matcher.push("> more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, OfTwoThatEndTogetherTheLonger) {
  StopMatcher matcher({"b", "ab"});
  EXPECT_EQ(matcher.push("xab"), "x");
}

TEST(StopMatcher, WithoutStringsHoldsNothing) {
  StopMatcher matcher({"", ""});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
}

}  // namespace
}  // namespace reprise
