#include "server/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "server/fake_engine.h"
#include "server/http.h"
#include "server/service.h"
#include "server/target.h"
#include "server/test_model.h"

namespace reprise {
namespace {

using testing::HasSubstr;

TEST(Target, PathsAreDecodedOnceAndWithoutQuery) {
  EXPECT_EQ(decode_path("/health?x=1"), "/health");
  EXPECT_EQ(decode_path("/a#b"), "/a");
  EXPECT_EQ(decode_path("/v1/models/org%2Ftiny"), "/v1/models/org/tiny");
  EXPECT_EQ(decode_path("/%2541"), "/%41");
  EXPECT_EQ(decode_path("/%zz%4"), "/%zz%4");
  EXPECT_EQ(decode_path("/%-1"), "/%-1");
  EXPECT_EQ(decode_path("http://host:80/v1/models"), "/v1/models");
  EXPECT_EQ(decode_path("http://host"), "/");
}

TEST(Http, ErrorsCarryWhenToRetry) {
  const auto busy = error_reply(Error{ErrorKind::busy, "full"});
  EXPECT_EQ(busy.status, 429);
  ASSERT_EQ(busy.headers.size(), 1u);
  EXPECT_EQ(busy.headers[0].first, "Retry-After");
  EXPECT_TRUE(error_reply(Error{ErrorKind::invalid, "x"}).headers.empty());
  EXPECT_EQ(error_reply(408, Error{ErrorKind::invalid, "x"}).status, 408);
}

struct Routes : testing::Test {
  Service service{ServerOptions{.version = "1.2.3"}};
  FakeEngine engine;

  void load() { service.set_model(test_model(), engine.backend()); }

  HttpReply ask(const std::string& path, const std::string& method = "GET") {
    auto route = find_route({.method = method, .path = path}, service);
    auto* reply = std::get_if<HttpReply>(&route.target);
    EXPECT_TRUE(reply) << path;
    return reply ? *reply : HttpReply{};
  }
  Json json(const HttpReply& reply) { return Json::parse(reply.body); }
};

TEST_F(Routes, HealthFollowsTheEngine) {
  auto reply = ask("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, R"({"status":"loading"})");
  load();
  reply = ask("/health");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"status":"ok"})");
  engine.set_health(EngineHealth::stuck, "", 61);
  reply = ask("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json(reply)["status"], "stuck");
  EXPECT_EQ(json(reply)["since_seconds"], 61);
  engine.set_health(EngineHealth::failed, "no disk");
  EXPECT_EQ(ask("/health").status, 503);
  EXPECT_EQ(json(ask("/health"))["error"], "no disk");
  engine.set_health(EngineHealth::loading);
  EXPECT_EQ(ask("/health").body, R"({"status":"loading"})");
}

TEST_F(Routes, ModelsAreListedAndFound) {
  EXPECT_EQ(ask("/v1/models").status, 503);
  EXPECT_EQ(ask("/v1/models/org/tiny").status, 503);
  load();
  const auto list = json(ask("/v1/models"));
  EXPECT_EQ(list["data"][0]["id"], "org/tiny");
  EXPECT_EQ(list["data"][0]["max_model_len"], kTestContext);
  EXPECT_EQ(json(ask("/v1/models/org/tiny")), list["data"][0]);
  const auto other = ask("/v1/models/another");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(json(other)["error"]["code"], "model_not_found");
  EXPECT_THAT(other.body, HasSubstr("another"));
}

TEST_F(Routes, RootSaysWhatIsHere) {
  const auto about = json(ask("/"));
  EXPECT_EQ(about["name"], "reprise");
  EXPECT_EQ(about["version"], "1.2.3");
  EXPECT_EQ(about["endpoints"].size(), 10u);
}

TEST_F(Routes, UnknownPathsNameTheKnownOnes) {
  for (const char* path :
       {"/v1/embeddings", "/v1/models/", "/health/", "/v1", "/\xff"}) {
    const auto reply = ask(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("POST /v1/chat/completions"));
  }
  EXPECT_THAT(ask("/v1/embeddings").body, HasSubstr("/v1/embeddings"));
}

TEST_F(Routes, WrongMethodsNameTheRightOnes) {
  const auto allow = [](const HttpReply& reply) {
    for (const auto& [name, value] : reply.headers)
      if (name == "Allow") return value;
    return std::string();
  };
  const auto get = ask("/v1/chat/completions");
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(allow(get), "POST, OPTIONS");
  const auto remove = ask("/v1/models", "DELETE");
  EXPECT_EQ(remove.status, 405);
  EXPECT_EQ(allow(remove), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask("/v1/completions", "HEAD").status, 405);
  EXPECT_EQ(ask("/health", "HEAD").status, 503);
  const auto options = ask("/v1/completions", "OPTIONS");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(allow(options), "POST, OPTIONS");
}

TEST_F(Routes, GeneratingEndpoints) {
  const auto chat =
      find_route({.method = "POST", .path = "/v1/chat/completions"}, service);
  EXPECT_EQ(std::get<Endpoint>(chat.target), Endpoint::chat);
  EXPECT_EQ(chat.name, "/v1/chat/completions");
  const auto completions =
      find_route({.method = "POST", .path = "/v1/completions"}, service);
  EXPECT_EQ(std::get<Endpoint>(completions.target), Endpoint::completions);
}

TEST_F(Routes, MetricsAreThereBeforeTheModelIs) {
  EXPECT_THAT(ask("/metrics").body, HasSubstr("reprise_resident_bytes"));
}

}  // namespace
}  // namespace reprise
