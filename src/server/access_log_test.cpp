#include "server/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

std::string id_for(const std::string& given) {
  return request_id(
      {.method = "GET", .path = "/", .headers = {{"x-request-ID", given}}});
}

TEST(RequestId, TheClientsOwnIsKept) {
  EXPECT_EQ(id_for("my-id_1.2/3"), "my-id_1.2/3");
  EXPECT_EQ(id_for(std::string(128, 'x')), std::string(128, 'x'));
}

TEST(RequestId, WhatCouldHarmALogIsReplaced) {
  for (const std::string& given :
       {std::string(), std::string(129, 'x'), std::string("a b"),
        std::string("a\tb"), std::string("a\nb"), std::string("\xc3\xa9"),
        std::string("a\0b", 3), std::string("\x7f")}) {
    const auto id = id_for(given);
    EXPECT_THAT(id, testing::MatchesRegex("req-[0-9a-f]+")) << given;
    EXPECT_EQ(id.size(), 36u);
  }
  EXPECT_NE(id_for(""), id_for(""));
}

TEST(AccessLine, SaysWhatIsKnown) {
  RequestRecord record{.id = "r1",
                       .client = "127.0.0.1",
                       .method = "POST",
                       .path = "/v1/completions",
                       .status = 200,
                       .bytes_sent = 321};
  record.first_byte = record.started + milliseconds(12);
  record.prompt_tokens = 7;
  record.cached_tokens = 5;
  record.completion_tokens = 3;
  EXPECT_EQ(access_line(record, record.started + milliseconds(40)),
            "request id=r1 client=127.0.0.1 method=POST path=/v1/completions "
            "status=200 first_byte_ms=12.0 total_ms=40.0 bytes=321 "
            "prompt_tokens=7 cached_tokens=5 completion_tokens=3");
}

TEST(AccessLine, DashesForWhatIsNot) {
  const RequestRecord record{.id = "r", .client = "::1", .status = 431};
  EXPECT_THAT(access_line(record, record.started),
              HasSubstr("method=- path=- status=431 first_byte_ms=- "
                        "total_ms=0.0 bytes=0 prompt_tokens=- "));
}

TEST(AccessLine, APathCannotForgeALine) {
  const RequestRecord record{
      .id = "r",
      .client = "-",
      .method = "GET",
      .path = "/a\nrequest id=x status=200 \"\x1b[31m\xff%" +
              std::string(1000, 'y')};
  const auto line = access_line(record, record.started);
  EXPECT_THAT(line, HasSubstr("path=/a%0Arequest%20id=x%20status=200%20%22%1B"
                              "[31m%FF%25y"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_LT(line.size(), 1200u);
}

}  // namespace
}  // namespace reprise
