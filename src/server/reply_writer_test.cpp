#include "server/reply_writer.h"

#include <gtest/gtest.h>

#include <map>

#include "api/json.h"
#include "server/choice_writer.h"
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
  // `more` may have a prompt of its own.
  Reply(Endpoint endpoint, const std::string& more,
        const ModelServices& services = model())
      : prepared(prepare(endpoint,
                         R"({"messages": [{"role": "user", "content": "x"}])" +
                             std::string(more.find("\"prompt\"") < more.size()
                                             ? ""
                                             : R"(, "prompt": "pr")") +
                             more + "}",
                         services)
                     .value()),
        writer(endpoint, prepared, services) {}

  std::string token(TokenId id) { return writer.push(0, SampledToken{id}); }

  std::string push(const std::string& text) {
    std::string out;
    for (const TokenId id : test_ids(text)) out += token(id);
    return out;
  }

  // All that is said of a reply with this text, then these tokens.
  std::string say(const std::string& text, const std::vector<TokenId>& more,
                  const Finish& finish) {
    std::string out = push(text);
    for (const TokenId id : more) out += token(id);
    return out + writer.finish(0, finish);
  }

  PreparedReply prepared;
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
    EXPECT_TRUE(reply.writer.stopped(0));
    out += reply.push("efg");
    out += reply.writer.finish(0, {.reason = FinishReason::cancelled});
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
  const auto rest = events_in(reply.writer.finish(0, length()));
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
              Json(streamed.prepared.prompts[0].request.prompt));
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
    EXPECT_EQ(json["prompt_token_ids"],
              Json(whole.prepared.prompts[0].request.prompt));
  }
}

TEST(ReplyWriter, ATokenThatIsNoneIsOurFault) {
  Reply reply(Endpoint::chat, "");
  EXPECT_THROW(reply.token(-1), std::runtime_error);
}

TEST(ReplyWriter, AStopStringMayBeShown) {
  Reply reply(Endpoint::completions,
              R"(, "stop": "cd", "include_stop_str_in_output": true)");
  const auto json = Json::parse(reply.say("abcde", {}, length()));
  EXPECT_EQ(json["choices"][0]["text"], "abcd");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
}

TEST(ReplyWriter, AStopTokenIsShownIfItWasNamedAndAskedFor) {
  const TokenId z = test_ids("z")[0];
  for (const bool include : {false, true}) {
    Reply reply(Endpoint::completions,
                std::string(R"(, "stop_token_ids": [)") + std::to_string(z) +
                    "]" +
                    (include ? R"(, "include_stop_str_in_output": true)" : ""));
    const auto json = Json::parse(reply.say("ab", {z}, Finish{}));
    EXPECT_EQ(json["choices"][0]["text"], include ? "abz" : "ab");
  }
}

TEST(ReplyWriter, StopStringsCountFromMinTokensOn) {
  Reply reply(Endpoint::completions, R"(, "stop": "b", "min_tokens": 3)");
  const auto json = Json::parse(reply.say("abab", {}, length()));
  EXPECT_EQ(json["choices"][0]["text"], "aba");
}

// A token's made-up log-probabilities: minus its id, and one neighbour's.
SampledToken scored(TokenId id) {
  const auto value = -static_cast<float>(id);
  return {id, TokenLogprobs{
                  .logprob = value, .rank = 2, .top = {{id + 1, value + 1}}}};
}

TEST(ReplyWriter, LogprobsComeWithTheChunkOfTheirToken) {
  for (const auto endpoint : {Endpoint::chat, Endpoint::completions}) {
    const bool chat = endpoint == Endpoint::chat;
    const std::string wanted = chat ? R"(, "logprobs": true, "top_logprobs": 1)"
                                    : R"(, "logprobs": 1)";
    Reply streamed(endpoint, R"(, "stream": true, "stop": "cx")" + wanted);
    Reply whole(endpoint, R"(, "stop": "cx")" + wanted);
    std::string out;
    for (const TokenId id : test_ids("abcd")) {
      out += streamed.writer.push(0, scored(id));
      whole.writer.push(0, scored(id));
    }
    out += streamed.writer.push(0, scored(kTestEnd));
    whole.writer.push(0, scored(kTestEnd));
    out += streamed.writer.finish(0, Finish{});
    const char* list = chat ? "content" : "tokens";
    std::vector<std::size_t> counts;
    Json joined = Json::array();
    for (const auto& event : events_in(out)) {
      if (event.is_null()) continue;
      const auto& logprobs = event["choices"][0]["logprobs"];
      if (logprobs.is_null()) continue;
      counts.push_back(logprobs[list].size());
      for (const auto& entry : logprobs[list]) joined.push_back(entry);
    }
    // "c" is held back until "d" shows that it begins no stop string.
    EXPECT_EQ(counts, (std::vector<std::size_t>{1, 1, 2, 1}));
    const auto json = Json::parse(whole.writer.finish(0, Finish{}));
    EXPECT_EQ(json["choices"][0]["logprobs"][list], joined);
    EXPECT_EQ(joined.size(), 5u);
    if (chat) {
      EXPECT_EQ(joined[0]["token"], "a");
      EXPECT_EQ(joined[0]["logprob"],
                scored(test_ids("a")[0]).logprobs->logprob);
      EXPECT_EQ(joined[0]["top_logprobs"][0]["token"], "b");
      EXPECT_EQ(joined[4]["token"], "<|end|>");
    } else {
      EXPECT_EQ(json["choices"][0]["logprobs"]["text_offset"],
                Json({0, 1, 2, 3, 4}));
    }
  }
}

TEST(ReplyWriter, EchoPutsThePromptBeforeTheReply) {
  for (const bool stream : {false, true}) {
    Reply reply(Endpoint::completions,
                std::string(R"(, "echo": true, "logprobs": 1)") +
                    (stream ? R"(, "stream": true)" : ""));
    const auto ids = reply.prepared.prompts[0].request.prompt;  // "pr"
    ASSERT_EQ(ids.size(), 2u);
    reply.writer.push(0, PromptLogprobs{1, {*scored(ids[1]).logprobs}});
    std::string out = reply.writer.push(0, scored(test_ids("x")[0]));
    out += reply.writer.finish(0, length());
    const auto json = stream ? events_in(out)[0] : Json::parse(out);
    const auto& choice = json["choices"][0];
    EXPECT_EQ(choice["text"], "prx");
    const auto& logprobs = choice["logprobs"];
    EXPECT_EQ(logprobs["tokens"], Json({"p", "r", "x"}));
    EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2}));
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
    EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
    EXPECT_EQ(logprobs["token_logprobs"][1], -static_cast<float>(ids[1]));
    EXPECT_EQ(logprobs["top_logprobs"][1].size(), 2u) << "itself, too";
  }
}

TEST(ReplyWriter, AnEchoOfNoReply) {
  Reply reply(Endpoint::completions,
              R"(, "echo": true, "logprobs": 0, "max_tokens": 0)");
  const auto ids = reply.prepared.prompts[0].request.prompt;
  reply.writer.push(0, PromptLogprobs{1, {*scored(ids[1]).logprobs}});
  const auto json = Json::parse(reply.writer.finish(0, length()));
  EXPECT_EQ(json["choices"][0]["text"], "pr");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][0]["logprobs"]["token_logprobs"].size(), 2u);
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

TEST(ReplyWriter, PromptLogprobsStandWhereVllmHasThem) {
  for (const auto endpoint : {Endpoint::chat, Endpoint::completions}) {
    Reply reply(endpoint, R"(, "prompt_logprobs": 0)");
    const auto ids = reply.prepared.prompts[0].request.prompt;
    PromptLogprobs prompt{1, {}};
    for (std::size_t i = 1; i < ids.size(); ++i)
      prompt.tokens.push_back(*scored(ids[i]).logprobs);
    reply.writer.push(0, prompt);
    const auto json = Json::parse(reply.say("a", {}, length()));
    const auto& list = endpoint == Endpoint::chat
                           ? json["prompt_logprobs"]
                           : json["choices"][0]["prompt_logprobs"];
    ASSERT_EQ(list.size(), ids.size());
    EXPECT_TRUE(list[0].is_null());
    const auto& entry = list[1];
    EXPECT_EQ(entry.size(), 1u) << "none beside it were asked for";
    EXPECT_EQ(entry[std::to_string(ids[1])]["rank"], 2);
    EXPECT_TRUE(json["choices"][0]["logprobs"].is_null());
  }
}

TEST(ReplyWriter, ChoicesOfSeveralPrompts) {
  Reply reply(Endpoint::completions, R"(, "n": 2, "stream": true,
      "stream_options": {"include_usage": true}, "prompt": ["pr", "q"])");
  ASSERT_EQ(reply.prepared.choices(), 4);
  std::string out;
  for (const int choice : {3, 0, 2, 1}) {
    out += reply.writer.push(choice, SampledToken{test_ids("abcd")[choice]});
    EXPECT_FALSE(reply.writer.finished());
    out += reply.writer.finish(
        choice, {.reason = FinishReason::length,
                 .cache = {.evaluated_tokens = choice < 2 ? 2 : 1}});
  }
  EXPECT_TRUE(reply.writer.finished());
  const auto events = events_in(out);
  ASSERT_EQ(events.size(), 4u * 2 + 2);
  std::map<int, std::string> texts;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& choice = events[i]["choices"][0];
    texts[choice["index"]] += choice["text"];
    EXPECT_EQ(events[i].contains("timings"), i == 7) << "the last one only";
    EXPECT_EQ(choice.contains("cache"), i % 2 == 1);
  }
  EXPECT_EQ(texts, (std::map<int, std::string>{
                       {0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}}));
  EXPECT_EQ(events[8]["usage"]["prompt_tokens"], 3) << "each prompt once";
  EXPECT_EQ(events[8]["usage"]["completion_tokens"], 4);
  EXPECT_EQ(events[7]["cache"]["evaluated_tokens"], 3);
  EXPECT_TRUE(events[9].is_null());
}

const ModelServices& thinking_model() {
  static const auto kModel = [] {
    auto out = test_model();
    out.chat_template =
        ChatTemplate::compile("{{ messages[0].content }}{# <think> #}", {})
            .value();
    return out;
  }();
  return kModel;
}

// "<think>" and "</think>" are tokens of the fixture, "why" is three.
std::vector<TokenId> thought() {
  return {506, test_ids("w")[0], test_ids("h")[0], test_ids("y")[0],
          507, test_ids("a")[0]};
}

TEST(ReplyWriter, AThoughtIsNoContent) {
  for (const bool stream : {false, true}) {
    Reply reply(Endpoint::chat, stream ? R"(, "stream": true)" : "",
                thinking_model());
    const auto out = reply.say("", thought(), length());
    std::string reasoning, content;
    const auto documents =
        stream ? events_in(out) : std::vector<Json>{Json::parse(out)};
    for (const auto& json : documents) {
      if (json.is_null()) continue;
      const auto& choice = json["choices"][0];
      const auto& message = choice[stream ? "delta" : "message"];
      EXPECT_EQ(message.value("reasoning", ""),
                message.value("reasoning_content", ""));
      reasoning += message.value("reasoning", "");
      if (message.contains("content")) content += message["content"];
    }
    EXPECT_EQ(reasoning, "why");
    EXPECT_EQ(content, "a");
  }
  Reply reply(Endpoint::chat, "", thinking_model());
  const auto json = Json::parse(reply.say("", thought(), length()));
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);
  EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
}

TEST(ReplyWriter, AThoughtStaysInTheContentIfAskedTo) {
  Reply reply(Endpoint::chat, R"(, "reasoning_format": "none")",
              thinking_model());
  const auto json = Json::parse(reply.say("", thought(), length()));
  EXPECT_EQ(json["choices"][0]["message"]["content"], "<think>why</think>a");
  EXPECT_FALSE(json["choices"][0]["message"].contains("reasoning"));
  EXPECT_FALSE(json["usage"].contains("completion_tokens_details"));
}

TEST(ReplyWriter, AStopStringEndsAThoughtToo) {
  Reply reply(Endpoint::chat, R"(, "stop": "hy")", thinking_model());
  const auto json = Json::parse(reply.say("", thought(), length()));
  EXPECT_TRUE(json["choices"][0]["message"]["content"].is_null());
  EXPECT_EQ(json["choices"][0]["message"]["reasoning"], "w");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
}

}  // namespace
}  // namespace reprise
