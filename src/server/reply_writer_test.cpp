#include "server/reply_writer.h"

#include <gtest/gtest.h>

#include "api/json.h"
#include "server/test_model.h"

namespace reprise {
namespace {

const ModelServices& model() {
  static const auto kModel = test_model();
  return kModel;
}

// The JSON of each event; [DONE] becomes null.
std::vector<Json> events_in(const std::string& lines) {
  std::vector<Json> out;
  std::size_t at = 0;
  while (at < lines.size()) {
    EXPECT_EQ(lines.substr(at, 6), "data: ");
    const auto end = lines.find("\n\n", at);
    const auto data = lines.substr(at + 6, end - at - 6);
    out.push_back(data == "[DONE]" ? Json() : Json::parse(data));
    at = end + 2;
  }
  return out;
}

struct Reply {
  explicit Reply(Endpoint endpoint, const std::string& more)
      : prepared(prepare(endpoint,
                         R"({"prompt": "pr", "messages": [{"role": "user",
                         "content": "x"}])" +
                             more + "}",
                         model())
                     .value()),
        writer(endpoint, prepared, model()) {}

  std::string push(const std::string& text) {
    std::string out;
    for (const TokenId id : test_ids(text)) out += writer.push(id);
    return out;
  }

  // All that is said of a reply with this text, then these tokens.
  std::string say(const std::string& text, const std::vector<TokenId>& more,
                  const Finish& finish) {
    std::string out = push(text);
    for (const TokenId id : more) out += writer.push(id);
    return out + writer.finish(finish);
  }

  PreparedRequest prepared;
  ReplyWriter writer;
};

Finish length() {
  return {.reason = FinishReason::length};
}

TEST(ReplyWriter, StreamsAChat) {
  Reply reply(Endpoint::chat, R"(, "stream": true)");
  const auto events = events_in(reply.say("ab", {kTestEnd}, Finish{}));
  ASSERT_EQ(events.size(), 5u);
  const auto delta = [&](int i) {
    return events[i]["choices"][0]["delta"].dump();
  };
  EXPECT_EQ(delta(0), R"({"role":"assistant","content":""})");
  EXPECT_EQ(delta(1), R"({"content":"a"})");
  EXPECT_EQ(delta(2), R"({"content":"b"})");
  EXPECT_EQ(delta(3), "{}");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["timings"]["predicted_n"], 3);
  EXPECT_TRUE(events[4].is_null());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_FALSE(events[i].contains("usage"));
    EXPECT_EQ(events[i].contains("cache"), i == 3);
  }
}

TEST(ReplyWriter, UsageComesLastAndOnlyWhenAsked) {
  for (const auto endpoint : {Endpoint::chat, Endpoint::completions}) {
    Reply reply(endpoint,
                R"(, "stream": true,
                   "stream_options": {"include_usage": true})");
    const auto events = events_in(reply.say("abc", {}, length()));
    const auto n = events.size();
    EXPECT_TRUE(events[n - 1].is_null());
    EXPECT_EQ(events[n - 2]["choices"], Json::array());
    EXPECT_EQ(events[n - 2]["usage"]["completion_tokens"], 3);
    EXPECT_EQ(events[n - 3]["choices"][0]["finish_reason"], "length");
    for (std::size_t i = 0; i + 2 < n; ++i)
      EXPECT_FALSE(events[i].contains("usage"));
  }
}

TEST(ReplyWriter, TextEndsBeforeAStopString) {
  for (const bool stream : {false, true}) {
    Reply reply(Endpoint::completions,
                std::string(R"(, "stop": ["cd", "zz"])") +
                    (stream ? R"(, "stream": true)" : ""));
    std::string out = reply.push("abcd");
    EXPECT_TRUE(reply.writer.stopped());
    out += reply.push("efg");
    out += reply.writer.finish({.reason = FinishReason::cancelled});
    std::string text;
    Json last;
    for (const auto& event :
         stream ? events_in(out) : std::vector{Json::parse(out)})
      if (!event.is_null()) {
        last = event;
        text += event["choices"][0]["text"].get<std::string>();
      }
    EXPECT_EQ(text, "ab");
    EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(last["timings"]["predicted_n"], 4)
        << "tokens behind the stop string are nobody's";
  }
}

TEST(ReplyWriter, WhatWasHeldBackComesOutAtTheEnd) {
  Reply reply(Endpoint::completions, R"(, "stream": true, "stop": "bcd")");
  const auto events = events_in(reply.push("abc"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "a");
  const auto rest = events_in(reply.writer.finish(length()));
  EXPECT_EQ(rest[0]["choices"][0]["text"], "bc");
  EXPECT_EQ(rest[1]["choices"][0]["finish_reason"], "length");
}

TEST(ReplyWriter, TokenIdsAreAllThereStreamedAndNot) {
  const auto expected = [] {
    auto ids = test_ids("abc");
    ids.push_back(kTestEnd);
    return Json(ids);
  }();
  for (const auto endpoint : {Endpoint::chat, Endpoint::completions}) {
    Reply streamed(endpoint, R"(, "stream": true, "return_token_ids": true)");
    auto events = events_in(streamed.say("abc", {kTestEnd}, Finish{}));
    EXPECT_EQ(events[0]["prompt_token_ids"],
              Json(streamed.prepared.request.prompt));
    Json ids = Json::array();
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      EXPECT_EQ(events[i].contains("prompt_token_ids"), i == 0);
      for (const auto& id : events[i]["choices"][0]["token_ids"])
        ids.push_back(id);
    }
    EXPECT_EQ(ids, expected);

    Reply whole(endpoint, R"(, "return_token_ids": true)");
    const auto json = Json::parse(whole.say("abc", {kTestEnd}, Finish{}));
    EXPECT_EQ(json["choices"][0]["token_ids"], expected);
    EXPECT_EQ(json["prompt_token_ids"], Json(whole.prepared.request.prompt));
  }
}

TEST(ReplyWriter, ATokenOutsideTheVocabularyIsOurFault) {
  Reply reply(Endpoint::chat, "");
  EXPECT_THROW(reply.writer.push(-1), std::runtime_error);
}

}  // namespace
}  // namespace reprise
