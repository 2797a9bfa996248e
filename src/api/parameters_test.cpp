#include "api/parameters.h"

#include "api/expect_error.h"

namespace reprise {
namespace {

TEST(Parameters, Defaults) {
  const auto p = parse_parameters(Json::object());
  ASSERT_TRUE(p);
  EXPECT_EQ(p->sampling.temperature, 1.0f);
  EXPECT_EQ(p->sampling.top_p, 1.0f);
  EXPECT_EQ(p->sampling.top_k, 0);
  EXPECT_FALSE(p->seed);
  EXPECT_FALSE(p->max_tokens);
  EXPECT_TRUE(p->stop.empty());
  EXPECT_FALSE(p->stream || p->include_usage || p->ignore_eos);
  EXPECT_TRUE(p->cache_prompt);
  EXPECT_FALSE(p->return_token_ids);
}

TEST(Parameters, ReadsEach) {
  const auto p = parse_parameters(Json::parse(R"({
      "temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": 12,
      "max_tokens": 9, "stop": ["a", "b"], "stream": true,
      "stream_options": {"include_usage": true}, "ignore_eos": true,
      "cache_prompt": false, "return_token_ids": true})"));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->sampling.temperature, 0.5f);
  EXPECT_EQ(p->sampling.top_p, 0.25f);
  EXPECT_EQ(p->sampling.top_k, 7);
  EXPECT_EQ(p->sampling.seed, 12u);
  EXPECT_EQ(p->max_tokens, 9);
  EXPECT_EQ(p->stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(p->stream && p->include_usage && p->ignore_eos);
  EXPECT_FALSE(p->cache_prompt);
  EXPECT_TRUE(p->return_token_ids);
}

TEST(Parameters, NullIsNotGiven) {
  Json body;
  for (const char* name :
       {"temperature", "top_p", "top_k", "seed", "max_tokens",
        "max_completion_tokens", "stop", "stream", "stream_options",
        "ignore_eos", "cache_prompt", "return_token_ids", "n", "tools"})
    body[name] = nullptr;
  EXPECT_TRUE(parse_parameters(body));
}

TEST(Parameters, EdgesAreIn) {
  for (const char* text :
       {R"({"temperature": 0})", R"({"temperature": 2})", R"({"top_p": 1})",
        R"({"top_k": -1})", R"({"top_k": 0})", R"({"max_tokens": 1})",
        R"({"max_tokens": 2147483647})", R"({"seed": 18446744073709551615})",
        R"({"seed": -9223372036854775808})", R"({"stop": []})",
        R"({"max_tokens": 5, "max_completion_tokens": 5})"})
    EXPECT_TRUE(parse_parameters(Json::parse(text))) << text;
  EXPECT_EQ(parse_parameters(Json{{"top_k", -1}})->sampling.top_k, 0);
  EXPECT_GT(parse_parameters(Json{{"top_p", 1e-300}})->sampling.top_p, 0.0f);
  EXPECT_EQ(parse_parameters(Json{{"seed", -1}})->seed, UINT64_MAX);
  EXPECT_EQ(parse_parameters(Json{{"max_completion_tokens", 3}})->max_tokens,
            3);
}

struct Bad {
  const char* name;
  const char* value;
  const char* shown;  // of the value
  const char* limit;
};

TEST(Parameters, WrongTypesAndRangesAreNamed) {
  const Bad cases[] = {
      {"temperature", "\"hot\"", "\"hot\"", "from 0 to 2"},
      {"temperature", "true", "true", "from 0 to 2"},
      {"temperature", "-0.1", "-0.1", "from 0 to 2"},
      {"temperature", "2.5", "2.5", "from 0 to 2"},
      {"temperature", "1e300", "1e+300", "from 0 to 2"},
      {"top_p", "0", "0", "greater than 0 and at most 1"},
      {"top_p", "1.01", "1.01", "at most 1"},
      {"top_k", "-2", "-2", "from -1"},
      {"top_k", "1.5", "1.5", "an integer"},
      {"top_k", "99999999999", "99999999999", "2147483647"},
      {"max_tokens", "0", "0", "from 1"},
      {"max_tokens", "-1", "-1", "from 1"},
      {"max_tokens", "18446744073709551615", "18446744073709551615",
       "2147483647"},
      {"max_tokens", "1e30", "1e+30", "an integer"},
      {"max_completion_tokens", "\"9\"", "\"9\"", "an integer"},
      {"seed", "1.5", "1.5", "an integer"},
      {"seed", "99999999999999999999", "1e+20", "18446744073709551615"},
      {"stop", "5", "5", "at most 16"},
      {"stop", "[\"a\", 5]", "5", "at most 16"},
      {"stop", "\"\"", "\"\"", "1 to 1024 bytes"},
      {"stop", "[\"\"]", "\"\"", "1 to 1024 bytes"},
      {"stream", "1", "1", "true or false"},
      {"ignore_eos", "\"no\"", "\"no\"", "true or false"},
      {"cache_prompt", "0", "0", "true or false"},
      {"return_token_ids", "[]", "[]", "true or false"},
      {"stream_options", "\"usage\"", "\"usage\"", "an object"}};
  for (const auto& c : cases) {
    const auto body =
        Json::parse(std::string("{\"") + c.name + "\": " + c.value + "}");
    expect_error(parse_parameters(body), ErrorKind::invalid, c.name,
                 {c.name, c.shown, c.limit});
  }
  expect_error(parse_parameters(Json{{"stop", Json(17, "x")}}),
               ErrorKind::invalid, "stop", {"an array of 17", "at most 16"});
  expect_error(parse_parameters(Json{{"stop", std::string(1025, 'x')}}),
               ErrorKind::invalid, "stop", {"xxx\"...", "1024"});
  expect_error(
      parse_parameters(Json{{"stream_options", {{"include_usage", 1}}}}),
      ErrorKind::invalid, "stream_options.include_usage", {"true or false"});
  expect_error(
      parse_parameters(Json{{"max_tokens", 1}, {"max_completion_tokens", 2}}),
      ErrorKind::invalid, "max_tokens", {"is 1", "is 2"});
}

TEST(Parameters, KnownButNotServedAreNamed) {
  for (const char* text : {R"({"n": 2})",
                           R"({"logprobs": true})",
                           R"({"logprobs": 0})",
                           R"({"top_logprobs": 2})",
                           R"({"logit_bias": {"1": 5}})",
                           R"({"response_format": {"type": "json_object"}})",
                           R"({"tools": [{}]})",
                           R"({"tool_choice": "required"})",
                           R"({"functions": [{}]})",
                           R"({"frequency_penalty": 0.5})",
                           R"({"presence_penalty": -0.5})",
                           R"({"min_p": 0.1})",
                           R"({"typical_p": 0.5})",
                           R"({"repetition_penalty": 1.1})",
                           R"({"grammar": "root"})",
                           R"({"json_schema": {"type": "object"}})",
                           R"({"best_of": 2})",
                           R"({"suffix": "x"})",
                           R"({"echo": true})",
                           R"({"audio": {}})",
                           R"({"modalities": ["text", "audio"]})",
                           R"({"prediction": {"type": "content"}})",
                           R"({"n": "two"})"}) {
    const auto body = Json::parse(text);
    const std::string name = body.items().begin().key();
    expect_error(parse_parameters(body), ErrorKind::unsupported, name, {name});
  }
}

TEST(Parameters, HarmlessAndUnknownAreIgnored) {
  const auto body = Json::parse(R"({
      "n": 1, "logprobs": false, "logit_bias": {}, "tools": [],
      "response_format": {"type": "text"}, "tool_choice": "none",
      "functions": [], "frequency_penalty": 0, "presence_penalty": 0.0,
      "min_p": 0, "typical_p": 1, "repetition_penalty": 1.0, "grammar": "",
      "best_of": 1, "suffix": "", "echo": false, "modalities": ["text"],
      "user": "u", "store": true, "metadata": {"a": [1]}, "nobody": "x"})");
  const auto parsed = parse_parameters(body);
  EXPECT_TRUE(parsed) << parsed.error().message;
}

TEST(Parameters, ModelName) {
  EXPECT_EQ(*parse_model_name(Json::object()), "");
  EXPECT_EQ(*parse_model_name(Json{{"model", nullptr}}), "");
  EXPECT_EQ(*parse_model_name(Json{{"model", "m"}}), "m");
  expect_error(parse_model_name(Json{{"model", 7}}), ErrorKind::invalid,
               "model", {"a string", "7"});
}

}  // namespace
}  // namespace reprise
