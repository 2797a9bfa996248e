#include "server/auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "api/json.h"

namespace reprise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kKeys = {"first-key", "second-key"};

HttpRequest asks(const std::string& name, const std::string& value,
                 const std::string& path = "/v1/models") {
  return {.method = "GET", .path = path, .headers = {{name, value}}};
}

int status_of(const HttpRequest& head) {
  const auto refusal = refuse_without_key(head, kKeys);
  return refusal ? refusal->status : 200;
}

TEST(Auth, AnyKeyInEitherHeaderIsTaken) {
  for (const auto& key : kKeys) {
    EXPECT_EQ(status_of(asks("Authorization", "Bearer " + key)), 200);
    EXPECT_EQ(status_of(asks("authorization", "bEaReR   " + key + " ")), 200);
    EXPECT_EQ(status_of(asks("X-API-Key", key)), 200);
  }
  auto both = asks("Authorization", "Bearer wrong");
  both.headers.emplace_back("x-api-key", "second-key");
  EXPECT_EQ(status_of(both), 200);
}

TEST(Auth, WhatIsNearlyAKeyIsNone) {
  for (const char* value :
       {"", "Bearer", "Bearer ", "Bearer first-ke", "Bearer first-keyy",
        "Bearer first-keyfirst-key", "Bearer First-key", "Basic first-key",
        "first-key", "Bearer first-key,second-key", "Bearerfirst-key"})
    EXPECT_EQ(status_of(asks("Authorization", value)), 401) << value;
  for (const char* value : {"", "first-ke", "Bearer first-key", "\tx"})
    EXPECT_EQ(status_of(asks("x-api-key", value)), 401) << value;
  EXPECT_EQ(status_of({.method = "GET", .path = "/v1/models"}), 401);
}

TEST(Auth, TheRefusalSaysWhatToDoAndNoKey) {
  const auto none = refuse_without_key(asks("x", "y"), kKeys);
  EXPECT_THAT(none->body, HasSubstr("x-api-key"));
  const auto wrong = refuse_without_key(asks("x-api-key", "wrong-one"), kKeys);
  for (const auto& reply : {*none, *wrong}) {
    const auto error = Json::parse(reply.body)["error"];
    EXPECT_EQ(error["code"], "invalid_api_key");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_THAT(reply.headers,
                ElementsAre(std::pair("WWW-Authenticate", "Bearer")));
    EXPECT_THAT(reply.body, Not(HasSubstr("first-key")));
    EXPECT_THAT(reply.body, Not(HasSubstr("wrong-one")));
  }
}

TEST(Auth, HealthAndPreflightsAreOpenAndNothingElse) {
  const auto open = [](const char* method, const char* path) {
    return status_of({.method = method, .path = path}) == 200;
  };
  EXPECT_TRUE(open("GET", "/health"));
  EXPECT_TRUE(open("HEAD", "/health"));
  for (const char* path : {"/", "/metrics", "/v1/models", "/health/", "/x"})
    EXPECT_FALSE(open("GET", path)) << path;
  EXPECT_FALSE(open("POST", "/health"));
  EXPECT_FALSE(open("OPTIONS", "/v1/models")) << "not a preflight";
  auto preflight = asks("Access-Control-Request-Method", "POST");
  EXPECT_EQ(status_of(preflight), 401) << "nor is this";
  preflight.method = "OPTIONS";
  EXPECT_EQ(status_of(preflight), 200);
}

TEST(Auth, WithoutKeysNobodyIsAsked) {
  EXPECT_FALSE(refuse_without_key({.method = "GET", .path = "/metrics"}, {}));
}

struct KeyFile : testing::Test {
  const std::string path =
      testing::TempDir() + "keys-" + std::to_string(::getpid());

  Result<std::vector<std::string>> read(const std::string& text) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
    return read_api_keys(path);
  }
  ~KeyFile() override { ::unlink(path.c_str()); }
};

TEST_F(KeyFile, OneKeyALine) {
  const auto keys = read("# ours\n\n  one \r\ntwo\n   # more\nthree");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_THAT(*keys, ElementsAre("one", "two", "three"));
}

TEST_F(KeyFile, WithoutAKeyItIsAMistake) {
  for (const char* text : {"", "\n\n", "# one\n", "  \t\n"}) {
    const auto keys = read(text);
    ASSERT_FALSE(keys) << "an empty file must not open the server";
    EXPECT_THAT(keys.error().message, HasSubstr(path));
  }
  EXPECT_EQ(read_api_keys(path + "-none").error().kind, ErrorKind::not_found);
}

TEST_F(KeyFile, AMessageHasTheLineAndNotTheKey) {
  const auto keys = read("one\nsecret words\n");
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().message, HasSubstr(path + ":2"));
  EXPECT_THAT(keys.error().message, Not(HasSubstr("secret")));
  for (const char* key : {"", " ", "a b", "a\tb", "\xc3\xa9", "a\n"})
    EXPECT_FALSE(check_api_key(key, "--api-key")) << key;
  EXPECT_TRUE(check_api_key("sk-!~", "--api-key"));
}

}  // namespace
}  // namespace reprise
