// For the tests of this folder: a server on a free port with a model whose
// engine is the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "server/fake_engine.h"
#include "server/raw_client.h"
#include "server/server.h"
#include "server/test_model.h"

namespace reprise {

using std::chrono::milliseconds;

inline constexpr char kChatPath[] = "/v1/chat/completions";
inline constexpr char kCompletionsPath[] = "/v1/completions";

struct ServerFixture : testing::Test {
  FakeEngine engine;  // outlives the server
  ServerOptions options{.port = 0, .access_log = false};
  std::optional<Server> server;

  void start(bool with_model = true) {
    server.emplace(options);
    const auto started = server->start();
    ASSERT_TRUE(started) << started.error().message;
    if (with_model) server->set_model(test_model(), engine.backend());
  }

  RawClient client() { return RawClient(server->port()); }

  static std::string chat_body(const std::string& more = "") {
    return R"({"messages": [{"role": "user", "content": "x"}])" + more + "}";
  }
  static std::string streamed() { return chat_body(", \"stream\": true"); }

  // An ordinary request is served, on a connection of its own.
  void serves() {
    const auto before = next_;
    auto c = client();
    c.post(kChatPath, chat_body());
    const auto id = engine.wait_request(next_ = before + 1);
    ASSERT_NE(id, 0u) << "the request never reached the engine";
    engine.tokens(id, test_ids("ok"));
    engine.finish(id, {.reason = FinishReason::length});
    const auto reply = c.reply();
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["choices"][0]["message"]["content"], "ok");
  }

  // The id of the next request that reaches the engine.
  RequestId next() { return engine.wait_request(++next_); }

  // Waits until /metrics has this line.
  bool metric(const std::string& line) {
    for (int i = 0; i < 200; ++i) {
      auto c = client();
      c.get("/metrics");
      if (c.reply().body.find(line + "\n") != std::string::npos) return true;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return false;
  }

 private:
  RequestId next_ = 0;
};

}  // namespace reprise
