#include "api/logprobs.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace reprise {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// 0 ... 99: letters; from 100 on a byte of its own.
std::string bytes_of(TokenId id) {
  if (id < 100) return std::string(1, static_cast<char>('a' + id));
  return std::string(1, static_cast<char>(id));
}

const std::vector<ScoredToken> kTokens = {
    {.id = 0, .logprobs = {}, .text_offset = 0},
    {.id = 1,
     .logprobs =
         TokenLogprobs{
             .logprob = -0.5f, .rank = 2, .top = {{2, -0.25f}, {1, -0.5f}}},
     .text_offset = 1},
    {.id = 0xE4,
     .logprobs =
         TokenLogprobs{.logprob = kNever, .rank = 3, .top = {{3, -0.125f}}},
     .text_offset = 2}};

TEST(Logprobs, OfAChat) {
  const auto json = chat_logprobs(std::span(kTokens).subspan(1), bytes_of);
  EXPECT_EQ(json.dump(),
            R"({"content":[{"token":"b","logprob":-0.5,"bytes":[98],)"
            R"("top_logprobs":[{"token":"c","logprob":-0.25,"bytes":[99]},)"
            R"({"token":"b","logprob":-0.5,"bytes":[98]}]},)"
            R"({"token":"\\xe4","logprob":-9999.0,"bytes":[228],)"
            R"("top_logprobs":[{"token":"d","logprob":-0.125,"bytes":[100]}]})"
            R"(],"refusal":null})");
}

TEST(Logprobs, OfACompletion) {
  const auto json = completion_logprobs(kTokens, bytes_of);
  EXPECT_EQ(json.dump(), R"({"tokens":["a","b","bytes:\\xe4"],)"
                         R"("token_logprobs":[null,-0.5,-9999.0],)"
                         R"("top_logprobs":[null,{"c":-0.25,"b":-0.5},)"
                         R"({"d":-0.125,"bytes:\\xe4":-9999.0}],)"
                         R"("text_offset":[0,1,2]})");
}

// lm-evaluation-harness asks whether a token's own value is the largest.
TEST(Logprobs, TheTokenItselfHasTheSameNumberInBothPlaces) {
  const float value = -1.0f / 3;
  const std::vector<ScoredToken> tokens = {
      {.id = 1,
       .logprobs =
           TokenLogprobs{.logprob = value, .rank = 1, .top = {{1, value}}}}};
  const auto json = Json::parse(completion_logprobs(tokens, bytes_of).dump());
  EXPECT_EQ(json["token_logprobs"][0].get<double>(),
            json["top_logprobs"][0]["b"].get<double>());
}

TEST(Logprobs, OfAPrompt) {
  const auto json = prompt_logprobs(kTokens, bytes_of);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_TRUE(json[0].is_null());
  EXPECT_EQ(json[1].dump(),
            R"({"1":{"logprob":-0.5,"rank":2,"decoded_token":"b"},)"
            R"("2":{"logprob":-0.25,"rank":1,"decoded_token":"c"}})");
  EXPECT_EQ(json[2]["228"]["logprob"], -9999.0);
  EXPECT_EQ(json[2]["228"]["rank"], 3);
  EXPECT_EQ(json[2]["3"]["rank"], 1);
}

}  // namespace
}  // namespace reprise
