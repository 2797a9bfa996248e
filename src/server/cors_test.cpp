#include "server/cors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

using Origins = std::vector<std::string>;

HttpRequest page(const std::string& origin, const std::string& method = "POST",
                 const std::string& host = "127.0.0.1:8080") {
  return {.method = method,
          .path = "/v1/models",
          .headers = {{"Host", host}, {"Origin", origin}}};
}

TEST(Cors, NoPageReadsAnythingByDefault) {
  EXPECT_THAT(cors_headers(page("https://a.example"), {}), IsEmpty());
}

TEST(Cors, AListedPageIsNamedAndCachesAreWarned) {
  const Origins listed = {"https://a.example", "http://localhost:3000"};
  for (const auto& origin : listed)
    EXPECT_THAT(cors_headers(page(origin), listed),
                AllOf(Contains(Pair("Access-Control-Allow-Origin", origin)),
                      Contains(Pair("Vary", "Origin")),
                      Not(Contains(Key("Access-Control-Allow-Methods")))));
}

TEST(Cors, WhatIsNearlyAListedPageIsNone) {
  const Origins listed = {"https://a.example"};
  for (const char* origin :
       {"", "null", "http://a.example", "https://a.example:8443",
        "https://a.example.evil", "https://evila.example",
        "https://b.a.example", "https://a.example/", "*"})
    EXPECT_THAT(cors_headers(page(origin), listed),
                ElementsAre(Pair("Vary", "Origin")))
        << origin;
}

TEST(Cors, AllMeansAll) {
  EXPECT_THAT(cors_headers(page("https://x.example"), {"*"}),
              AllOf(Contains(Pair("Access-Control-Allow-Origin", "*")),
                    Not(Contains(Key("Vary")))));
}

TEST(Cors, APreflightIsToldWhatItAskedFor) {
  auto head = page("https://a.example", "OPTIONS");
  EXPECT_FALSE(is_preflight(head));
  head.headers.emplace_back("Access-Control-Request-Method", "POST");
  head.headers.emplace_back("Access-Control-Request-Headers",
                            "authorization,content-type");
  EXPECT_TRUE(is_preflight(head));
  EXPECT_THAT(cors_headers(head, {"https://a.example"}),
              AllOf(Contains(Pair("Access-Control-Allow-Methods",
                                  testing::HasSubstr("POST"))),
                    Contains(Pair("Access-Control-Allow-Headers",
                                  "authorization,content-type")),
                    Contains(Key("Access-Control-Max-Age"))));
  EXPECT_THAT(cors_headers(head, {"https://b.example"}),
              ElementsAre(Pair("Vary", "Origin")));
}

TEST(Cors, OriginsAreChecked) {
  for (const char* good : {"*", "null", "https://a.example", "http://[::1]:80",
                           "http://localhost:3000", "app://obsidian.md"})
    EXPECT_TRUE(check_origin(good)) << good;
  for (const char* bad : {"", "a.example", "https://", "https://a.example/",
                          "https://a.example/x", "https://*.example",
                          "https://a, https://b", "://a"}) {
    const auto checked = check_origin(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_THAT(checked.error().message, testing::HasSubstr(bad));
  }
}

TEST(RefuseOrigin, APageCannotCauseWorkUnasked) {
  const auto refused = refuse_origin(page("https://evil.example"), {});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_THAT(refused->body, testing::HasSubstr("https://evil.example"));
  EXPECT_THAT(refused->body, testing::HasSubstr("--cors-origin"));
  EXPECT_TRUE(refuse_origin(page("null"), {})) << "a sandboxed frame";
  EXPECT_TRUE(refuse_origin(page("https://evil.example", "DELETE"), {}));
}

TEST(RefuseOrigin, OthersAreNotAsked) {
  EXPECT_FALSE(refuse_origin({.method = "POST", .path = "/"}, {}))
      << "no browser";
  for (const char* method : {"GET", "HEAD", "OPTIONS"})
    EXPECT_FALSE(refuse_origin(page("https://evil.example", method), {}));
  EXPECT_FALSE(refuse_origin(page("https://a.example"), {"https://a.example"}));
  EXPECT_FALSE(refuse_origin(page("https://a.example"), {"*"}));
  EXPECT_FALSE(refuse_origin(page("http://127.0.0.1:8080"), {}))
      << "the server's own origin";
}

bool host_refused(const std::string& host, const Origins& origins = {},
                  const std::string& own = "127.0.0.1") {
  const HttpRequest head{
      .method = "GET", .path = "/", .headers = {{"Host", host}}};
  return refuse_host(head, own, origins).has_value();
}

TEST(RefuseHost, NamesThatAStrangerMayOwn) {
  for (const char* host :
       {"evil.example", "evil.example:8080", "127.0.0.1.evil.example",
        "localhost.evil.example", "evil.example.", "1.evil.example",
        "notlocalhost.example"})
    EXPECT_TRUE(host_refused(host)) << host;
}

TEST(RefuseHost, NamesThatNobodyElseOwns) {
  for (const char* host : {"", "localhost", "LOCALHOST:8080", "localhost.:8080",
                           "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080",
                           "192.168.1.5:80", "reprise", "a.localhost:80"})
    EXPECT_FALSE(host_refused(host)) << host;
  EXPECT_FALSE(host_refused("box.example:80", {}, "box.example"));
  EXPECT_FALSE(host_refused("a.example", {"https://a.example:8443"}));
  EXPECT_TRUE(host_refused("b.example", {"https://a.example"}));
  EXPECT_FALSE(host_refused("b.example", {"*"}));
}

}  // namespace
}  // namespace reprise
