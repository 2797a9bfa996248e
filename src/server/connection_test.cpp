// What every request passes before it is answered, and what every reply
// carries: over a real socket.
#include "server/connection.h"

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "server/server_fixture.h"

namespace reprise {
namespace {

using testing::HasSubstr;
using testing::Not;

struct ConnectionTest : ServerFixture {
  RawReply ask(const std::string& bytes) {
    auto c = client();
    c.send(bytes);
    return c.reply();
  }
  RawReply get(const std::string& path, const std::string& headers = "") {
    return ask("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
  }
  static std::string allowed(const RawReply& reply) {
    return RawClient::field(reply.head, "Access-Control-Allow-Origin");
  }
  static std::string id_of(const RawReply& reply) {
    return RawClient::field(reply.head, "X-Request-Id");
  }
};

TEST_F(ConnectionTest, AKeyIsAskedForBeforeTheBodyIsRead) {
  options.api_keys = {"the-key"};
  start();
  auto c = client();
  // Announced and never sent: a server that read first would wait.
  c.send(std::string("POST ") + kChatPath +
         " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  const auto reply = c.reply();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.error("code"), "invalid_api_key");
  EXPECT_EQ(RawClient::field(reply.head, "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(RawClient::field(reply.head, "Connection"), "close")
      << "what is left of the body is no request";

  auto good = client();
  good.post(kChatPath, chat_body(), "Authorization: Bearer the-key\r\n");
  const auto id = next();
  engine.finish(id, {});
  EXPECT_EQ(good.reply().status, 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/").status, 401);
}

TEST_F(ConnectionTest, ARefusalWithoutABodyKeepsTheConnection) {
  options.api_keys = {"the-key"};
  start();
  auto c = client();
  c.get("/v1/models");
  EXPECT_EQ(c.reply().status, 401);
  c.send("GET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: the-key\r\n\r\n");
  EXPECT_EQ(c.reply().status, 200);
}

TEST_F(ConnectionTest, ListedPagesReadRepliesErrorsAndStreams) {
  options.cors_origins = {"https://a.example"};
  start();
  const std::string origin = "Origin: https://a.example\r\n";
  EXPECT_EQ(allowed(get("/health", origin)), "https://a.example");
  EXPECT_EQ(allowed(get("/nothing", origin)), "https://a.example");
  const auto big =
      ask(std::string("POST ") + kChatPath + " HTTP/1.1\r\nHost: x\r\n" +
          origin + "Content-Length: 99999999\r\n\r\n");
  EXPECT_EQ(big.status, 413);
  EXPECT_EQ(allowed(big), "https://a.example");
  auto c = client();
  c.post(kChatPath, streamed(), origin);
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  EXPECT_THAT(c.until("\r\n\r\n"),
              HasSubstr("Access-Control-Allow-Origin: https://a.example"));
  engine.finish(id, {});
  EXPECT_EQ(allowed(get("/health", "Origin: https://b.example\r\n")), "");
}

TEST_F(ConnectionTest, APreflightNeedsNoKey) {
  options.cors_origins = {"*"};
  options.api_keys = {"the-key"};
  start();
  const auto reply = ask(std::string("OPTIONS ") + kChatPath +
                         " HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n"
                         "Access-Control-Request-Method: POST\r\n"
                         "Access-Control-Request-Headers: authorization\r\n"
                         "\r\n");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(allowed(reply), "*");
  EXPECT_EQ(RawClient::field(reply.head, "Access-Control-Allow-Headers"),
            "authorization");
  const auto refused = get("/v1/models", "Origin: https://a.example\r\n");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(allowed(refused), "*") << "the page must be able to read why";
}

TEST_F(ConnectionTest, StrangePagesAndNamesAreRefusedOnlyWithoutAKey) {
  const std::string page =
      std::string("POST ") + kChatPath +
      " HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n"
      "Content-Length: 2\r\n";
  const std::string rebound =
      "GET /v1/models HTTP/1.1\r\nHost: evil.example:80\r\n";
  start();
  EXPECT_EQ(ask(page + "\r\n{}").error("code"), "origin_not_allowed");
  EXPECT_EQ(ask(rebound + "\r\n").error("code"), "host_not_allowed");
  EXPECT_EQ(allowed(ask(rebound + "\r\n")), "");
  server.reset();
  options.api_keys = {"the-key"};
  start();
  EXPECT_EQ(ask(page + "x-api-key: the-key\r\n\r\n{}").status, 400);
  EXPECT_EQ(ask(rebound + "x-api-key: the-key\r\n\r\n").status, 200);
}

TEST_F(ConnectionTest, EveryAddressIsNotLoopback) {
  options.host = "0.0.0.0";
  start();
  EXPECT_EQ(ask("GET /health HTTP/1.1\r\nHost: box.example\r\n\r\n").status,
            200)
      << "the name that this machine has for others is not ours to know";
}

TEST_F(ConnectionTest, EveryReplyHasAnId) {
  start();
  EXPECT_EQ(id_of(get("/health", "X-Request-Id: mine\r\n")), "mine");
  EXPECT_EQ(id_of(get("/nothing", "x-request-id: mine\r\n")), "mine");
  EXPECT_THAT(id_of(get("/health", "X-Request-Id: no t\r\n")),
              testing::StartsWith("req-"));
  EXPECT_THAT(id_of(ask("G@T / HTTP/1.1\r\n\r\n")),
              testing::StartsWith("req-"));
  auto c = client();
  c.post(kChatPath, streamed(), "X-Request-Id: streamed-one\r\n");
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  EXPECT_THAT(c.until("\r\n\r\n"), HasSubstr("X-Request-Id: streamed-one"));
  engine.finish(id, {});
  c.until("[DONE]");
  c.until("0\r\n\r\n");
  c.get("/health");
  EXPECT_THAT(id_of(c.reply()), testing::StartsWith("req-"))
      << "the next request is another one";
}

// --- The log ---------------------------------------------------------------

struct Logged : ConnectionTest {
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();

  Logged() {
    options.access_log = true;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    spdlog::default_logger()->set_pattern("%v");
  }
  ~Logged() override { spdlog::set_default_logger(before); }

  // The server has ended, so that nobody writes to it any more.
  std::string log() {
    server->stop(milliseconds(5000));
    return text.str();
  }
};

TEST_F(Logged, OneLineARequestAndNoSecret) {
  options.api_keys = {"the-key"};
  start();
  auto c = client();
  c.post(kChatPath,
         R"({"messages": [{"role": "user", "content": "my-prompt"}]})",
         "Authorization: Bearer the-key\r\nX-Request-Id: r1\r\n"
         "Cookie: my-cookie\r\n");
  const auto id = next();
  engine.tokens(id, test_ids("my-reply"));
  engine.finish(id, {.cache = {.memory_tokens = 2}});
  EXPECT_EQ(c.reply().status, 200);
  EXPECT_EQ(get("/v1/models?secret=my-query", "x-api-key: wrong\r\n").status,
            401);
  const auto lines = log();
  EXPECT_THAT(lines, HasSubstr("request id=r1 client=127.0.0.1 method=POST "
                               "path=/v1/chat/completions status=200 "));
  EXPECT_THAT(lines, HasSubstr("cached_tokens=2 completion_tokens=8\n"));
  EXPECT_THAT(lines, HasSubstr("path=/v1/models status=401 "));
  for (const char* secret :
       {"the-key", "wrong", "my-prompt", "my-reply", "my-query", "my-cookie"})
    EXPECT_THAT(lines, Not(HasSubstr(secret)));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(Logged, AFailureAtTheEngineIsTiedToTheRequest) {
  start();
  auto c = client();
  c.post(kChatPath, chat_body(), "X-Request-Id: r7\r\n");
  const auto id = next();
  engine.finish(id, {.reason = FinishReason::error, .error = "NaN"});
  EXPECT_EQ(c.reply().status, 500);
  EXPECT_THAT(log(), HasSubstr(fmt::format(
                         "request id=r7 failed; to the engine it is request "
                         "{}: NaN\n",
                         id)));
}

TEST_F(Logged, ItCanBeTurnedOff) {
  options.access_log = false;
  start();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(log(), "");
}

TEST_F(Logged, OpenToOthersWithoutAKeyIsSaid) {
  options.access_log = false;
  options.host = "0.0.0.0";
  start();
  EXPECT_THAT(log(), HasSubstr("--api-key"));
  server.reset();
  text.str("");
  options.api_keys = {"the-key"};
  start();
  EXPECT_EQ(log(), "");
}

// --- Too many --------------------------------------------------------------

TEST_F(ConnectionTest, BusyConnectionsAreNotWaitedForButSaid) {
  options.connections_max = 1;
  start();
  auto busy = client();
  busy.post(kChatPath, chat_body());
  const auto id = next();
  auto more = client();
  const auto reply = more.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.error("message"), HasSubstr("All 1 connections"));
  EXPECT_EQ(RawClient::field(reply.head, "Retry-After"), "1");
  EXPECT_THAT(id_of(reply), testing::StartsWith("req-"));
  engine.finish(id, {});
  EXPECT_EQ(busy.reply().status, 200);
  serves();
}

}  // namespace
}  // namespace reprise
