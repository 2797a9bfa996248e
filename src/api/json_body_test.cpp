#include "api/json_body.h"

#include "api/expect_error.h"

namespace reprise {
namespace {

TEST(JsonBody, KeepsValuesAndTheOrderOfKeys) {
  const auto body = parse_json_object(
      R"({"b": [1, -2, 1.5, true, null], "a": {"y": "\u00e9", "x": {}}})");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->dump(), R"({"b":[1,-2,1.5,true,null],"a":{"y":"é","x":{}}})");
  EXPECT_TRUE((*body)["b"][0].is_number_unsigned());
  EXPECT_EQ((*body)["a"]["y"], "é");
}

TEST(JsonBody, RefusesWhatIsNotOneObject) {
  for (const char* text : {"",
                           " ",
                           "hello",
                           "[]",
                           "null",
                           "3",
                           "\"x\"",
                           "{",
                           "{} {}",
                           "{},",
                           R"({"a": NaN})",
                           R"({"a": Infinity})",
                           R"({"a": 1e999})",
                           R"({"a": 01})",
                           "{'a': 1}",
                           R"({"a": 1 /* x */})",
                           "{\"a\": \"\xff\"}",
                           "{\"a\": \"\xc0\xaf\"}",
                           R"({"a": "\ud83d"})",
                           "{\"a\": \"x\ny\"}"})
    expect_error(parse_json_object(text), ErrorKind::invalid, "", {"body"});
}

TEST(JsonBody, SaysWhereWithoutRepeatingTheBody) {
  const std::string tail(100'000, 'z');
  const auto body = parse_json_object("{\"a\": \"" + tail + "\xff\"}");
  ASSERT_TRUE(body.has_error());
  const auto& message = body.error().message;
  EXPECT_LT(message.size(), 400u);
  EXPECT_NE(message.find("byte 1000"), std::string::npos) << message;
  EXPECT_EQ(Json(message).dump().find("zzzzz"), std::string::npos);
}

TEST(JsonBody, RefusesAKeyThatStandsTwice) {
  expect_error(parse_json_object(R"({"a": 1, "b": 2, "a": 3})"),
               ErrorKind::invalid, "", {"\"a\"", "twice"});
  expect_error(parse_json_object(R"({"a": {"c": 1, "c": 1}})"),
               ErrorKind::invalid, "", {"\"c\"", "twice"});
  EXPECT_TRUE(parse_json_object(R"({"a": {"b": 1}, "b": {"a": 1, "b": 2}})"));
}

std::string nested(int depth) {
  return "{\"a\": " + std::string(depth - 1, '[') +
         std::string(depth - 1, ']') + "}";
}

TEST(JsonBody, DepthAndCountAreLimited) {
  EXPECT_TRUE(parse_json_object(nested(kJsonDepthMax)));
  expect_error(parse_json_object(nested(kJsonDepthMax + 1)), ErrorKind::invalid,
               "", {"deeper than 64"});
  expect_error(parse_json_object(nested(1'000'000)), ErrorKind::invalid, "",
               {"deeper than 64"});
  std::string many = "{\"a\": [0";
  for (std::size_t i = 3; i < kJsonValuesMax; ++i) many += ",0";
  EXPECT_TRUE(parse_json_object(many + "]}"));
  expect_error(parse_json_object(many + ",0]}"), ErrorKind::invalid, "",
               {"4194304"});
}

}  // namespace
}  // namespace reprise
