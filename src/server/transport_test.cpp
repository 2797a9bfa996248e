// What no honest client sends: one clear answer each, and the next request is
// served.
#include "server/transport.h"

#include "server/read_refusal.h"
#include "server/server_fixture.h"

namespace reprise {
namespace {

using testing::HasSubstr;

struct TransportTest : ServerFixture {
  // Sends bytes on a new connection; the reply, after which the server must
  // have closed.
  RawReply last_reply(const std::string& bytes) {
    auto c = client();
    c.send(bytes);
    auto reply = c.reply();
    EXPECT_TRUE(c.closed());
    return reply;
  }
};

std::string head(const std::string& lines) {
  return "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n";
}

TEST_F(TransportTest, AHundredMegabytesAreRefusedWithTheLimit) {
  start();
  auto c = client();
  c.send(head("Content-Length: 104857600\r\n"));
  const std::string mebibyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 100; ++i)
    if (!c.send(mebibyte)) break;
  const auto reply = c.reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.error("message"), HasSubstr("104857600"));
  EXPECT_THAT(reply.error("message"), HasSubstr("33554432"));
  serves();
}

TEST_F(TransportTest, ChunkedBodiesHaveTheSameLimit) {
  options.body_bytes_max = 1000;
  start();
  const std::string chunk = "1f4\r\n" + std::string(500, 'x') + "\r\n";
  const auto reply = last_reply(head("Transfer-Encoding: chunked\r\n") + chunk +
                                chunk + chunk + "0\r\n\r\n");
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.error("message"), HasSubstr("1000 bytes"));
  auto c = client();
  c.send(head("Transfer-Encoding: chunked\r\n") + chunk + chunk + "0\r\n\r\n");
  EXPECT_EQ(c.reply().status, 400) << "at the limit it is read, and not JSON";
  serves();
}

TEST_F(TransportTest, AMegabyteOfHeadersIsRefused) {
  start();
  std::string thousand;
  for (int i = 0; i < 1000; ++i)
    thousand +=
        "X-" + std::to_string(i) + ": " + std::string(1000, 'y') + "\r\n";
  for (const auto& lines :
       {thousand, "X: " + std::string(1'000'000, 'y') + "\r\n"}) {
    const auto reply = last_reply(head(lines));
    EXPECT_EQ(reply.status, 431);
    EXPECT_THAT(reply.error("message"), HasSubstr("65536"));
  }
  auto c = client();
  c.send("GET /health HTTP/1.1\r\nX: " + std::string(60'000, 'y') + "\r\n\r\n");
  EXPECT_EQ(c.reply().status, 200) << "below the limit it is read";
  serves();
}

TEST_F(TransportTest, WhatIsNotHttpIs400) {
  start();
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8) + "\r\n\r\n",
        std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("G@T / HTTP/1.1\r\n\r\n"), head("Content-Length: -5\r\n"),
        head("Content-Length: zz\r\n"),
        head("Content-Length: 3\r\nContent-Length: 4\r\n"),
        head("Transfer-Encoding: chunked\r\n") + "zz\r\n",
        head("no colon\r\n")}) {
    const auto reply = last_reply(bytes);
    EXPECT_EQ(reply.status, 400) << bytes;
    EXPECT_EQ(reply.error("type"), "invalid_request_error") << bytes;
  }
  serves();
}

TEST_F(TransportTest, BadBodiesLeaveTheConnectionOpen) {
  start();
  auto c = client();
  const std::string deep(100'000, '[');
  for (const std::string& body :
       {std::string(), std::string("hello"), std::string("{\"a\": NaN}"),
        std::string("{} {}"), std::string("{\"a\": \"\xff\"}"),
        "{\"a\": " + deep, std::string("{\"a\": 1, \"a\": 2}"),
        std::string("[]")}) {
    c.post(kChatPath, body);
    const auto reply = c.reply();
    EXPECT_EQ(reply.status, 400) << body.substr(0, 20);
    EXPECT_THAT(reply.error("message"), HasSubstr("body"));
  }
  c.get("/health");
  EXPECT_EQ(c.reply().status, 200);
  serves();
}

TEST_F(TransportTest, SlowHeadersAndBodiesEndIn408) {
  options.header_timeout = milliseconds(100);
  options.body_timeout = milliseconds(100);
  start();
  auto reply = last_reply("POST /v1/comp");
  EXPECT_EQ(reply.status, 408);
  EXPECT_THAT(reply.error("message"), HasSubstr("header"));
  EXPECT_THAT(reply.error("message"), HasSubstr("100 ms"));
  reply = last_reply(head("Content-Length: 10\r\n") + "{");
  EXPECT_EQ(reply.status, 408);
  EXPECT_THAT(reply.error("message"), HasSubstr("body"));
  serves();
}

TEST_F(TransportTest, SilentConnectionsAreClosedWithoutAWord) {
  options.idle_timeout = milliseconds(100);
  start();
  auto fresh = client();
  EXPECT_EQ(fresh.reply().status, 0);
  auto used = client();
  used.get("/health");
  EXPECT_EQ(used.reply().status, 200);
  EXPECT_EQ(used.reply().status, 0);
  serves();
}

TEST_F(TransportTest, ALongReplyIsNotAnIdleConnection) {
  options.idle_timeout = options.header_timeout = milliseconds(100);
  options.body_timeout = options.write_timeout = milliseconds(100);
  start();
  auto c = client();
  c.post(kChatPath, streamed());
  const auto id = next();
  EXPECT_FALSE(engine.wait_cancelled(id, milliseconds(300)));
  engine.tokens(id, test_ids("a"));
  c.until("\"content\":\"a\"}");
  EXPECT_FALSE(engine.wait_cancelled(id, milliseconds(300)));
  engine.finish(id, {});
  c.until("[DONE]");
}

TEST_F(TransportTest, ContinueIsSaidWhenAskedFor) {
  start();
  auto c = client();
  c.send(head("Content-Length: 2\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(c.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("{}");
  EXPECT_EQ(c.reply().status, 400);
  // A body that would not be taken is refused instead of asked for.
  auto big = client();
  big.send(head("Content-Length: 99999999\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(big.reply().status, 413);
}

TEST_F(TransportTest, CodingsThatAreNotServedAreNotReadAsIfTheyWere) {
  start();
  for (const char* coding :
       {"gzip, chunked", "gzip", "chunked, chunked", "identity",
        "gzip\r\nTransfer-Encoding: chunked"}) {
    const auto reply =
        last_reply(head(std::string("Transfer-Encoding: ") + coding + "\r\n") +
                   "2\r\n{}\r\n0\r\n\r\n");
    EXPECT_EQ(reply.status, 501) << coding;
    EXPECT_THAT(reply.error("message"), HasSubstr("chunked")) << coding;
  }
  for (const char* coding : {"gzip", "br, gzip", "gzip, identity"}) {
    const auto reply = last_reply(head(std::string("Content-Encoding: ") +
                                       coding + "\r\nContent-Length: 2\r\n") +
                                  "{}");
    EXPECT_EQ(reply.status, 415) << coding;
    EXPECT_EQ(RawClient::field(reply.head, "Accept-Encoding"), "identity");
    EXPECT_THAT(reply.error("message"), HasSubstr(coding));
  }
  for (const std::string& lines :
       {std::string("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n")})
    EXPECT_EQ(last_reply(head(lines) + "2\r\n{}\r\n0\r\n\r\n").status, 400)
        << "two lengths are how requests are smuggled";
  auto c = client();
  c.send(head("Content-Encoding: identity\r\n"
              "Transfer-Encoding: Chunked\r\n") +
         "2\r\n{}\r\n0\r\n\r\n");
  const auto reply = c.reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.error("message"), HasSubstr("prompt")) << "it was read";
  serves();
}

TEST_F(TransportTest, BodiesShareABudget) {
  options.body_bytes_max = 1000;
  options.bodies_bytes_max = 1000;
  start();
  auto slow = client();
  slow.send(head("Content-Length: 900\r\n") + std::string(600, ' '));
  ASSERT_TRUE(metric("reprise_body_bytes 600"));
  // One that says so is refused at once, one that does not when it is there.
  auto said = client();
  said.send(head("Content-Length: 401\r\n"));
  const auto reply = said.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.error("message"), HasSubstr("1000 bytes"));
  EXPECT_EQ(RawClient::field(reply.head, "Retry-After"), "1");
  EXPECT_TRUE(said.closed());
  EXPECT_EQ(last_reply(head("Transfer-Encoding: chunked\r\n") + "1f4\r\n" +
                       std::string(500, ' ') + "\r\n0\r\n\r\n")
                .status,
            503);
  auto fits = client();
  fits.send(head("Content-Length: 400\r\n") + std::string(400, ' '));
  EXPECT_EQ(fits.reply().status, 400) << "read, and not JSON";
  ASSERT_TRUE(metric("reprise_body_bytes 600"));
  slow.close();
  ASSERT_TRUE(metric("reprise_body_bytes 0"));
  serves();
}

TEST_F(TransportTest, ABodyCountsUntilItsRequestIsMade) {
  options.bodies_bytes_max = options.body_bytes_max;
  start();
  auto c = client();
  c.post(kChatPath, chat_body());
  const auto id = next();
  EXPECT_TRUE(metric("reprise_body_bytes 0"))
      << "a long reply must not hold what its body took";
  engine.finish(id, {});
  EXPECT_EQ(c.reply().status, 200);
}

TEST_F(TransportTest, HeadGetsNoBody) {
  start();
  auto c = client();
  c.get("/health", "HEAD");
  const auto reply = c.reply(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(RawClient::field(reply.head, "Content-Length"), "15");
  c.get("/v1/models");
  EXPECT_EQ(c.reply().json()["object"], "list") << "nothing stood between";
}

TEST_F(TransportTest, ClientsOfHttp10GetAPlainStreamAndTheEnd) {
  start();
  auto c = client();
  const auto body = streamed();
  c.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto id = next();
  engine.tokens(id, test_ids("a"));
  engine.finish(id, {});
  EXPECT_THAT(c.until("\r\n\r\n"), testing::Not(HasSubstr("chunked")));
  EXPECT_THAT(c.until("data: [DONE]\n\n").substr(0, 6), "data: ");
  EXPECT_TRUE(c.closed());
}

TEST_F(TransportTest, ConnectionCloseIsHonoured) {
  start();
  const auto reply = last_reply(
      "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(RawClient::field(reply.head, "Connection"), "close");
}

TEST_F(TransportTest, IdleConnectionsMakeRoomForNewOnes) {
  options.connections_max = 2;
  start();
  auto first = client();
  first.get("/health");
  first.reply();
  auto second = client();
  second.get("/health");
  second.reply();
  for (int i = 0; i < 4; ++i) {
    auto more = client();
    more.get("/health");
    EXPECT_EQ(more.reply().status, 200);
  }
  serves();
}

}  // namespace
}  // namespace reprise
