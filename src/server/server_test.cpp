// Requests that are answered, over a real socket, with an engine that does
// what the test says.
#include "server/server.h"

#include <thread>

#include "server/connection.h"
#include "server/generation.h"
#include "server/server_fixture.h"

namespace reprise {
namespace {

using testing::HasSubstr;
using testing::Not;

struct ServerTest : ServerFixture {};

TEST_F(ServerTest, AnswersAChatAndKeepsTheConnection) {
  start();
  auto c = client();
  for (int turn = 1; turn <= 3; ++turn) {
    c.post(kChatPath, chat_body());
    const auto id = next();
    engine.tokens(id, test_ids("Hello"));
    engine.tokens(id, {kTestEnd});
    engine.finish(id, {.cache = {.memory_tokens = 1, .evaluated_tokens = 3},
                       .timings = {.prompt_ms = 3}});
    const auto reply = c.reply();
    ASSERT_EQ(reply.status, 200) << reply.body;
    const auto json = reply.json();
    EXPECT_EQ(json["choices"][0]["message"]["content"], "Hello");
    EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(json["usage"]["completion_tokens"], 6);
    EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
    EXPECT_EQ(json["timings"]["prompt_per_second"], 1000.0);
    EXPECT_FALSE(engine.cancelled(id));
  }
}

TEST_F(ServerTest, StreamsEachTokenWhenItComes) {
  start();
  auto c = client();
  c.post(kChatPath, streamed());
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  EXPECT_THAT(c.until("\r\n\r\n"), HasSubstr("text/event-stream"));
  EXPECT_THAT(c.until("\"content\":\"a\"}"),
              HasSubstr("\"role\":\"assistant\""));
  engine.tokens(id, test_ids("b"));
  c.until("\"content\":\"b\"}");
  engine.finish(id, {.reason = FinishReason::length});
  EXPECT_THAT(c.until("data: [DONE]\n\n\r\n0\r\n\r\n"),
              HasSubstr("\"finish_reason\":\"length\""));
  c.get("/health");
  EXPECT_EQ(c.reply().status, 200) << "the connection goes on";
}

TEST_F(ServerTest, HeadOfAStreamWaitsForTheFirstToken) {
  start();
  auto c = client();
  c.post(kChatPath, streamed());
  engine.finish(next(), {.reason = FinishReason::error, .error = "NaN"});
  const auto reply = c.reply();
  EXPECT_EQ(reply.status, 500) << "never a 200 with an empty stream";
  EXPECT_EQ(reply.error("message"), "NaN");
  EXPECT_EQ(reply.error("type"), "server_error");
}

TEST_F(ServerTest, AnErrorInsideAStreamIsItsLastEvent) {
  start();
  auto c = client();
  c.post(kChatPath, streamed());
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  c.until("\"content\":\"a\"}");
  engine.finish(id, {.reason = FinishReason::error, .error = "NaN"});
  const auto rest = c.until("0\r\n\r\n");
  EXPECT_THAT(rest, HasSubstr("data: {\"error\":{\"message\":\"NaN\""));
  EXPECT_THAT(rest, Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(c.closed());
}

TEST_F(ServerTest, WhatThrowsEndsItsOwnRequestOnly) {
  start();
  for (const bool stream : {false, true}) {
    auto c = client();
    c.post(kChatPath, stream ? streamed() : chat_body());
    const auto id = next();
    if (stream) {
      engine.tokens(id, test_ids("a"));
      c.until("\"content\":\"a\"}");
    }
    engine.tokens(id, {-1});
    if (stream)
      EXPECT_THAT(c.until("0\r\n\r\n"), HasSubstr("data: {\"error\":"));
    else
      EXPECT_EQ(c.reply().status, 500);
    EXPECT_TRUE(engine.wait_cancelled(id, milliseconds(2000)));
  }
  serves();
}

TEST_F(ServerTest, AStopStringCancelsAndWaitsForTheCounts) {
  start();
  auto c = client();
  c.post(kChatPath, chat_body(", \"stop\": \"cd\""));
  const auto id = next();
  engine.tokens(id, test_ids("abcd"));
  ASSERT_TRUE(engine.wait_cancelled(id, milliseconds(2000)));
  engine.tokens(id, test_ids("e"));  // was on its way already
  engine.finish(id, {.reason = FinishReason::cancelled,
                     .cache = {.evaluated_tokens = 4}});
  const auto json = c.reply().json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["completion_tokens"], 4);
  EXPECT_EQ(json["cache"]["evaluated_tokens"], 4);
}

// --- Several choices -------------------------------------------------------

TEST_F(ServerTest, ChoicesAreRequestsOfTheirOwn) {
  start();
  auto c = client();
  c.post(kChatPath, chat_body(R"(, "n": 3, "seed": 5, "stop": "cd")"));
  const RequestId ids[] = {next(), next(), next()};
  EXPECT_EQ(engine.request(ids[0]).sampling.seed, 5u);
  engine.tokens(ids[2], test_ids("three"));
  engine.tokens(ids[0], test_ids("one"));
  engine.tokens(ids[1], test_ids("abcd"));
  ASSERT_TRUE(engine.wait_cancelled(ids[1], milliseconds(2000)));
  EXPECT_FALSE(engine.cancelled(ids[0]) || engine.cancelled(ids[2]));
  engine.finish(ids[1], {.reason = FinishReason::cancelled,
                         .cache = {.memory_tokens = 3, .evaluated_tokens = 1}});
  engine.finish(ids[2], {.reason = FinishReason::length,
                         .cache = {.memory_tokens = 3, .evaluated_tokens = 1}});
  engine.finish(ids[0], {.cache = {.evaluated_tokens = 4}});
  const auto json = c.reply().json();
  ASSERT_EQ(json["choices"].size(), 3u);
  const char* texts[] = {"one", "ab", "three"};
  const char* reasons[] = {"stop", "stop", "length"};
  for (int i = 0; i < 3; ++i) {
    const auto& choice = json["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["message"]["content"], texts[i]);
    EXPECT_EQ(choice["finish_reason"], reasons[i]);
    EXPECT_EQ(choice["cache"]["evaluated_tokens"], i == 0 ? 4 : 1);
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4) << "once";
  EXPECT_EQ(json["usage"]["completion_tokens"], 3 + 4 + 5);
  EXPECT_EQ(json["cache"]["evaluated_tokens"], 4);
}

TEST_F(ServerTest, OneChoiceThatFailsIsTheReplysEnd) {
  start();
  for (const bool stream : {false, true}) {
    auto c = client();
    c.post(kChatPath, chat_body(std::string(R"(, "n": 3)") +
                                (stream ? R"(, "stream": true)" : "")));
    const RequestId ids[] = {next(), next(), next()};
    engine.finish(ids[0], {.cache = {.evaluated_tokens = 4}});
    if (stream) c.until("\"finish_reason\":\"stop\"");  // it has begun
    engine.finish(ids[1], {.reason = FinishReason::error, .error = "NaN"});
    if (stream)
      EXPECT_THAT(c.until("0\r\n\r\n"),
                  testing::AllOf(HasSubstr("\"message\":\"NaN\""),
                                 Not(HasSubstr("[DONE]"))));
    else
      EXPECT_EQ(c.reply().status, 500);
    EXPECT_TRUE(engine.wait_cancelled(ids[2], milliseconds(2000)));
    EXPECT_FALSE(engine.cancelled(ids[0])) << "it had finished";
    engine.finish(ids[2], {.reason = FinishReason::cancelled});
  }
  serves();
}

TEST_F(ServerTest, LeavingCancelsAllChoices) {
  start();
  auto c = client();
  c.post(kChatPath, chat_body(R"(, "n": 3, "stream": true)"));
  const RequestId ids[] = {next(), next(), next()};
  engine.tokens(ids[1], test_ids("a"));
  EXPECT_THAT(c.until("\"content\":\"a\"}"), HasSubstr("\"index\":1"));
  engine.finish(ids[0], {});
  c.until("\"finish_reason\":\"stop\"");
  c.reset();
  EXPECT_TRUE(engine.wait_cancelled(ids[1], milliseconds(1000)));
  EXPECT_TRUE(engine.wait_cancelled(ids[2], milliseconds(1000)));
  EXPECT_FALSE(engine.cancelled(ids[0]));
  serves();
}

TEST_F(ServerTest, ARefusalMidwayCancelsTheChoicesBefore) {
  start();
  auto c = client();
  engine.refuse_after(2, {ErrorKind::busy, "1024 requests wait"});
  c.post(kChatPath, chat_body(R"(, "n": 3)"));
  EXPECT_EQ(c.reply().status, 429);
  EXPECT_TRUE(engine.wait_cancelled(next(), milliseconds(1000)));
  EXPECT_TRUE(engine.wait_cancelled(next(), milliseconds(1000)));
  serves();
}

TEST_F(ServerTest, TextEndpointsNeedNoEngine) {
  start(false);
  auto c = client();
  c.post("/tokenize", R"({"content": "ab"})");
  EXPECT_EQ(c.reply().status, 503) << "the model is loading";
  server->set_model(test_model(), engine.backend());
  engine.set_health(EngineHealth::stuck, "", 70);
  c.post("/tokenize", R"({"content": "!A"})");
  auto reply = c.reply();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["tokens"], Json({0, 32}));
  c.post("/detokenize", R"({"tokens": [0, 512]})");
  reply = c.reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.error("param"), "tokens[1]");
  c.post("/apply-template", R"({"messages": [{"role": "user"}]})");
  EXPECT_EQ(c.reply().json()["prompt"], "<|user|><|end|><|assistant|>");
}

TEST_F(ServerTest, TheEnginesRefusalsHaveTheirStatus) {
  start();
  auto c = client();
  engine.refuse_next({ErrorKind::busy, "1024 requests wait"});
  c.post(kChatPath, chat_body());
  auto reply = c.reply();
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(RawClient::field(reply.head, "Retry-After"), "1");
  EXPECT_EQ(reply.error("type"), "rate_limit_error");
  engine.refuse_next({ErrorKind::unavailable, "stopping"});
  c.post(kChatPath, streamed());
  EXPECT_EQ(c.reply().status, 503);
  serves();
}

TEST_F(ServerTest, ListensBeforeTheModelIsThere) {
  start(false);
  auto c = client();
  c.get("/health");
  auto reply = c.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, R"({"status":"loading"})");
  c.post(kChatPath, chat_body());
  reply = c.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.error("message"), HasSubstr("loading"));
  server->set_model(test_model(), engine.backend());
  c.get("/health");
  EXPECT_EQ(c.reply().status, 200);
  serves();
}

TEST_F(ServerTest, AStuckEngineTakesNoRequests) {
  start();
  engine.set_health(EngineHealth::stuck, "", 70);
  auto c = client();
  c.post(kChatPath, chat_body());
  EXPECT_EQ(c.reply().status, 503);
  c.get("/health");
  EXPECT_EQ(c.reply().status, 503);
}

// --- Clients that leave ----------------------------------------------------

TEST_F(ServerTest, LeavingIsNoticedBeforeAnyToken) {
  start();
  for (const bool stream : {false, true})
    for (const bool reset : {false, true}) {
      auto c = client();
      c.post(kChatPath, stream ? streamed() : chat_body());
      const auto id = next();
      ASSERT_NE(id, 0u);
      EXPECT_FALSE(engine.wait_cancelled(id, milliseconds(50)));
      reset ? c.reset() : c.close();
      EXPECT_TRUE(engine.wait_cancelled(id, milliseconds(1000)))
          << "stream " << stream << " reset " << reset;
      engine.tokens(id, test_ids("late"));
      engine.finish(id, {.reason = FinishReason::cancelled});
    }
  EXPECT_TRUE(metric("reprise_disconnects_total 4"));
  EXPECT_TRUE(
      metric("reprise_requests_total{endpoint=\"/v1/chat/completions\""
             ",status=\"499\"} 4"));
  serves();
}

TEST_F(ServerTest, LeavingIsNoticedBetweenTokens) {
  start();
  for (const bool reset : {false, true}) {
    auto c = client();
    c.post(kChatPath, streamed());
    const auto id = next();
    engine.tokens(id, test_ids("a"));
    c.until("\"content\":\"a\"}");
    reset ? c.reset() : c.close();
    EXPECT_TRUE(engine.wait_cancelled(id, milliseconds(1000)));
  }
  serves();
}

TEST_F(ServerTest, TheNextRequestMayComeEarly) {
  start();
  auto c = client();
  c.post(kChatPath, chat_body());
  const auto id = next();
  c.get("/health");
  c.get("/v1/models");
  EXPECT_FALSE(engine.wait_cancelled(id, milliseconds(100)))
      << "bytes are no farewell";
  engine.tokens(id, test_ids("a"));
  engine.finish(id, {});
  EXPECT_EQ(c.reply().json()["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(c.reply().body, R"({"status":"ok"})");
  EXPECT_EQ(c.reply().json()["object"], "list");
}

TEST_F(ServerTest, AClientThatDoesNotReadIsCancelled) {
  start();
  RawClient c(server->port(), 4096);
  c.post(kChatPath, streamed());
  const auto id = next();
  // What the sockets hold back first is the system's business: some megabytes.
  for (int i = 0; i < 400 && !engine.cancelled(id); ++i) {
    engine.tokens(id, std::vector<TokenId>(1000, 5));
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_TRUE(engine.wait_cancelled(id, milliseconds(2000)));
  serves();
}

// --- Stopping --------------------------------------------------------------

TEST_F(ServerTest, StopLetsRepliesFinish) {
  start();
  auto idle = client();
  idle.get("/health");
  idle.reply();
  auto c = client();
  c.post(kChatPath, streamed());
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  c.until("\"content\":\"a\"}");
  std::thread stopping([&] { server->stop(milliseconds(10'000)); });
  EXPECT_TRUE(idle.closed());
  EXPECT_FALSE(engine.wait_cancelled(id, milliseconds(100)));
  engine.tokens(id, test_ids("b"));
  engine.finish(id, {});
  EXPECT_THAT(c.until("data: [DONE]"), HasSubstr("\"content\":\"b\""));
  const auto start = std::chrono::steady_clock::now();
  stopping.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5000));
}

TEST_F(ServerTest, StopCancelsWhatTakesTooLong) {
  start();
  auto streaming = client();
  streaming.post(kChatPath, streamed());
  const auto first = next();
  auto waiting = client();
  waiting.post(kChatPath, chat_body());
  const auto second = next();
  server->stop(milliseconds(50));
  EXPECT_TRUE(engine.cancelled(first));
  EXPECT_TRUE(engine.cancelled(second));
  // The engine may speak on after the server is gone.
  server.reset();
  engine.tokens(first, test_ids("a"));
  engine.finish(first, {.reason = FinishReason::cancelled});
}

TEST_F(ServerTest, AnEngineThatStopsIs503) {
  start();
  auto c = client();
  c.post(kChatPath, streamed());
  engine.finish(next(), {.reason = FinishReason::cancelled});
  const auto reply = c.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.error("message"), HasSubstr("stopping"));
}

TEST_F(ServerTest, APortThatIsTakenIsSaidClearly) {
  start();
  Server second({.port = server->port()});
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message,
              HasSubstr(std::to_string(server->port())));
  Server nowhere({.host = "no such host", .port = 0});
  EXPECT_THAT(nowhere.start().error().message, HasSubstr("no such host"));
  Server everywhere({.host = "", .port = 0});
  const auto opened = everywhere.start();
  ASSERT_FALSE(opened) << "an unset variable must not open every address";
  EXPECT_THAT(opened.error().message, HasSubstr("empty"));
}

TEST_F(ServerTest, ManyClientsGetTheirOwnReplies) {
  start();
  constexpr int kClients = 20;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<RequestId> ids;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->post(kChatPath, i % 2 ? streamed() : chat_body());
    ids.push_back(next());
  }
  for (int round = 0; round < 30; ++round)
    for (int i = 0; i < kClients; ++i)
      engine.tokens(ids[i], {static_cast<TokenId>(32 + i)});
  for (const auto id : ids) engine.finish(id, {});
  for (int i = 0; i < kClients; ++i) {
    const auto reply = clients[i]->reply();
    std::string text;
    if (i % 2 == 0) {
      text = reply.json()["choices"][0]["message"]["content"];
    } else {
      for (std::size_t at = 0;
           (at = reply.body.find("\"content\":\"", at)) != std::string::npos;)
        if (const char c = reply.body[at += 11]; c != '"') text += c;
    }
    EXPECT_EQ(text, std::string(30, static_cast<char>('A' + i)));
  }
}

}  // namespace
}  // namespace reprise
