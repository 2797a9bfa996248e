#include "api/parameters.h"

#include <limits>

#include "api/expect_error.h"
#include "api/logit_bias.h"
#include "api/unserved_parameters.h"

namespace reprise {
namespace {

constexpr int kVocabulary = 512;

Result<GenerationParameters> parse(
    const Json& body, EndpointKind kind = EndpointKind::completions) {
  return parse_parameters(body, kind, kVocabulary);
}
Result<GenerationParameters> parse(
    const char* body, EndpointKind kind = EndpointKind::completions) {
  return parse(Json::parse(body), kind);
}

TEST(Parameters, Defaults) {
  const auto p = parse(Json::object());
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
  EXPECT_EQ(p->sampling.min_p, 0.0f);
  EXPECT_EQ(p->sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(p->sampling.repetition_window, -1);
  EXPECT_EQ(p->sampling.presence_penalty, 0.0f);
  EXPECT_EQ(p->sampling.frequency_penalty, 0.0f);
  EXPECT_TRUE(p->sampling.logit_bias.empty() && p->text_bias.empty());
  EXPECT_EQ(p->min_tokens, 0);
  EXPECT_EQ(p->n, 1);
  EXPECT_TRUE(p->stop_token_ids.empty());
  EXPECT_FALSE(p->logprobs || p->prompt_logprobs);
  EXPECT_FALSE(p->echo || p->include_stop);
}

TEST(Parameters, ReadsEach) {
  const auto p = parse(R"({
      "temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": 12,
      "max_tokens": 9, "stop": ["a", "b"], "stream": true,
      "stream_options": {"include_usage": true}, "ignore_eos": true,
      "cache_prompt": false, "return_token_ids": true})");
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

TEST(Parameters, ReadsEachOfTheSampler) {
  const auto p = parse(R"({
      "min_p": 0.125, "repetition_penalty": 1.5, "repeat_last_n": 64,
      "presence_penalty": -2, "frequency_penalty": 0.5,
      "logit_bias": {"7": -100, "8": 2.5}})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->sampling.min_p, 0.125f);
  EXPECT_EQ(p->sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(p->sampling.repetition_window, 64);
  EXPECT_EQ(p->sampling.presence_penalty, -2.0f);
  EXPECT_EQ(p->sampling.frequency_penalty, 0.5f);
  ASSERT_EQ(p->sampling.logit_bias.size(), 2u);
  EXPECT_EQ(p->sampling.logit_bias[0].token, 7);
  EXPECT_EQ(p->sampling.logit_bias[0].bias, -100.0f);
  EXPECT_EQ(p->sampling.logit_bias[1].bias, 2.5f);
  EXPECT_EQ(parse(R"({"repeat_penalty": 1.25})")->sampling.repetition_penalty,
            1.25f);
}

TEST(Parameters, ReadsEachOfTheReply) {
  const auto p = parse(R"({
      "n": 3, "best_of": 3, "max_tokens": 9, "min_tokens": 9,
      "stop_token_ids": [0, 511], "include_stop_str_in_output": true,
      "echo": true, "logprobs": 0, "prompt_logprobs": 2})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->n, 3);
  EXPECT_EQ(p->min_tokens, 9);
  EXPECT_EQ(p->stop_token_ids, (std::vector<TokenId>{0, 511}));
  EXPECT_TRUE(p->include_stop && p->echo);
  EXPECT_EQ(p->logprobs, 0);
  EXPECT_EQ(p->prompt_logprobs, 2);
}

TEST(Parameters, LogprobsAsEachEndpointSpellsThem) {
  const auto chat = EndpointKind::chat;
  EXPECT_EQ(parse(R"({"logprobs": true})", chat)->logprobs, 0);
  EXPECT_EQ(parse(R"({"logprobs": true, "top_logprobs": 20})", chat)->logprobs,
            20);
  EXPECT_FALSE(parse(R"({"logprobs": false})", chat)->logprobs);
  EXPECT_FALSE(parse(R"({"logprobs": false})")->logprobs);
  EXPECT_EQ(parse(R"({"n_probs": 4})")->logprobs, 4);
  EXPECT_FALSE(parse(R"({"n_probs": 0})")->logprobs);
  expect_error(parse(R"({"top_logprobs": 2})", chat), ErrorKind::invalid,
               "top_logprobs", {"2", "\"logprobs\": true"});
  expect_error(parse(R"({"logprobs": 2})", chat), ErrorKind::invalid,
               "logprobs", {"2", "true or false"});
  expect_error(parse(R"({"logprobs": 2, "n_probs": 3})"), ErrorKind::invalid,
               "logprobs", {"2", "3", "n_probs"});
  expect_error(parse(R"({"prompt_logprobs": 1, "stream": true})"),
               ErrorKind::invalid, "prompt_logprobs", {"stream"});
}

TEST(Parameters, LengthsUnderAllTheirNames) {
  const auto chat = EndpointKind::chat;
  EXPECT_EQ(parse(R"({"max_tokens": 0})")->max_tokens, 0);
  EXPECT_EQ(parse(R"({"n_predict": 0})")->max_tokens, 0);
  EXPECT_EQ(parse(R"({"n_predict": 7})", chat)->max_tokens, 7);
  EXPECT_FALSE(parse(R"({"n_predict": -1})")->max_tokens);
  EXPECT_EQ(parse(R"({"n_predict": -1, "max_tokens": 3})")->max_tokens, 3);
  expect_error(parse(R"({"max_tokens": 0})", chat), ErrorKind::invalid,
               "max_tokens", {"0", "from 1"});
  expect_error(parse(R"({"n_predict": 0})", chat), ErrorKind::invalid,
               "n_predict", {"0", "at least 1"});
  expect_error(parse(R"({"n_predict": 2, "max_tokens": 3})"),
               ErrorKind::invalid, "max_tokens", {"3", "2", "n_predict"});
  expect_error(parse(R"({"min_tokens": 4, "max_tokens": 3})"),
               ErrorKind::invalid, "min_tokens", {"4", "max_tokens", "3"});
}

TEST(Parameters, BiasesInEveryForm) {
  const auto p = parse(R"({"logit_bias":
      [[3, 1.5], [4, false], ["ab", -1], [3, 2]]})");
  ASSERT_TRUE(p) << p.error().message;
  const auto& bias = p->sampling.logit_bias;
  ASSERT_EQ(bias.size(), 2u) << "each token once";
  EXPECT_EQ(bias[0].token, 3);
  EXPECT_EQ(bias[0].bias, 2.0f) << "the later one counts";
  EXPECT_EQ(bias[1].bias, -std::numeric_limits<float>::infinity());
  ASSERT_EQ(p->text_bias.size(), 1u);
  EXPECT_EQ(p->text_bias[0].text, "ab");
  EXPECT_EQ(p->text_bias[0].bias, -1.0f);
}

TEST(Parameters, BadBiasesAreNamed) {
  const auto bad = [](const char* value, const char* place, const char* shown,
                      const char* limit) {
    const auto body =
        Json::parse(std::string("{\"logit_bias\": ") + value + "}");
    expect_error(parse(body), ErrorKind::invalid, place, {shown, limit});
  };
  bad("5", "logit_bias", "5", "an object");
  bad(R"({"512": 1})", "logit_bias", "512", "from 0 to 511");
  bad(R"({"-1": 1})", "logit_bias", "-1", "from 0 to 511");
  bad(R"({"a": 1})", "logit_bias", "\"a\"", "from 0 to 511");
  bad(R"({"": 1})", "logit_bias", "\"\"", "from 0 to 511");
  bad(R"({"5": 100.5})", "logit_bias.5", "100.5", "from -100 to 100");
  bad(R"({"5": false})", "logit_bias.5", "false", "from -100 to 100");
  bad("[[512, 1]]", "logit_bias[0][0]", "512", "from 0 to 511");
  bad("[[1.5, 1]]", "logit_bias[0][0]", "1.5", "from 0 to 511");
  bad("[[1, true]]", "logit_bias[0][1]", "true", "or false");
  bad("[[1, 1], [2]]", "logit_bias[1]", "an array of 1", "a pair");
  bad(R"([["", 1]])", "logit_bias[0][0]", "\"\"", "1 to 1024 bytes");
  const auto many = Json{{"logit_bias", Json(1025, Json::array({1, 1}))}};
  expect_error(parse(many), ErrorKind::invalid, "logit_bias",
               {"an array of 1025", "at most 1024"});
}

TEST(Parameters, NullIsNotGiven) {
  Json body;
  for (const char* name : {"temperature",
                           "top_p",
                           "top_k",
                           "seed",
                           "max_tokens",
                           "max_completion_tokens",
                           "stop",
                           "stream",
                           "stream_options",
                           "ignore_eos",
                           "cache_prompt",
                           "return_token_ids",
                           "n",
                           "tools",
                           "min_p",
                           "repetition_penalty",
                           "repeat_penalty",
                           "repeat_last_n",
                           "presence_penalty",
                           "frequency_penalty",
                           "logit_bias",
                           "min_tokens",
                           "stop_token_ids",
                           "best_of",
                           "echo",
                           "logprobs",
                           "prompt_logprobs",
                           "n_predict",
                           "n_probs",
                           "include_stop_str_in_output"})
    body[name] = nullptr;
  EXPECT_TRUE(parse(body));
}

TEST(Parameters, EdgesAreIn) {
  for (const char* text :
       {R"({"temperature": 0})", R"({"temperature": 2})", R"({"top_p": 1})",
        R"({"top_k": -1})", R"({"top_k": 0})", R"({"max_tokens": 1})",
        R"({"max_tokens": 2147483647})", R"({"seed": 18446744073709551615})",
        R"({"seed": -9223372036854775808})", R"({"stop": []})",
        R"({"max_tokens": 5, "max_completion_tokens": 5})"})
    EXPECT_TRUE(parse(text)) << text;
  EXPECT_EQ(parse(Json{{"top_k", -1}})->sampling.top_k, 0);
  EXPECT_GT(parse(Json{{"top_p", 1e-300}})->sampling.top_p, 0.0f);
  EXPECT_EQ(parse(Json{{"seed", -1}})->seed, UINT64_MAX);
  EXPECT_EQ(parse(Json{{"max_completion_tokens", 3}})->max_tokens, 3);
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
      {"max_tokens", "-1", "-1", "from 0"},
      {"min_p", "1.5", "1.5", "from 0 to 1"},
      {"min_p", "-0.1", "-0.1", "from 0 to 1"},
      {"repetition_penalty", "0", "0", "greater than 0 and at most 100"},
      {"repeat_penalty", "101", "101", "at most 100"},
      {"repeat_last_n", "-2", "-2", "from -1"},
      {"presence_penalty", "2.5", "2.5", "from -2 to 2"},
      {"frequency_penalty", "-2.5", "-2.5", "from -2 to 2"},
      {"frequency_penalty", "\"a\"", "\"a\"", "from -2 to 2"},
      {"n", "0", "0", "from 1 to 128"},
      {"n", "129", "129", "from 1 to 128"},
      {"n", "\"two\"", "\"two\"", "an integer"},
      {"best_of", "0", "0", "from 1 to 128"},
      {"min_tokens", "-1", "-1", "from 0"},
      {"n_predict", "-2", "-2", "from -1"},
      {"logprobs", "21", "21", "from 0 to 20"},
      {"logprobs", "true", "true", "an integer"},
      {"prompt_logprobs", "21", "21", "from 0 to 20"},
      {"n_probs", "-1", "-1", "from 0 to 20"},
      {"stop_token_ids", "5", "5", "an array of at most 1024 token ids"},
      {"echo", "1", "1", "true or false"},
      {"include_stop_str_in_output", "1", "1", "true or false"},
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
    expect_error(parse(body), ErrorKind::invalid, c.name,
                 {c.name, c.shown, c.limit});
  }
  expect_error(parse(Json{{"stop", Json(17, "x")}}), ErrorKind::invalid, "stop",
               {"an array of 17", "at most 16"});
  expect_error(parse(Json{{"stop", std::string(1025, 'x')}}),
               ErrorKind::invalid, "stop", {"xxx\"...", "1024"});
  expect_error(parse(Json{{"stream_options", {{"include_usage", 1}}}}),
               ErrorKind::invalid, "stream_options.include_usage",
               {"true or false"});
  expect_error(parse(Json{{"max_tokens", 1}, {"max_completion_tokens", 2}}),
               ErrorKind::invalid, "max_tokens", {"is 1", "is 2"});
  expect_error(parse(R"({"repetition_penalty": 1.5, "repeat_penalty": 2})"),
               ErrorKind::invalid, "repetition_penalty", {"1.5", "2"});
  expect_error(parse(R"({"stop_token_ids": [3, 512]})"), ErrorKind::invalid,
               "stop_token_ids[1]", {"512", "from 0 to 511"});
}

TEST(Parameters, KnownButNotServedAreNamed) {
  for (const char* text :
       {R"({"top_logprobs": 2})", R"({"reasoning_effort": "low"})",
        R"({"response_format": {"type": "json_object"}})", R"({"tools": [{}]})",
        R"({"tool_choice": "required"})", R"({"functions": [{}]})",
        R"({"typical_p": 0.5})", R"({"grammar": "root"})",
        R"({"json_schema": {"type": "object"}})", R"({"best_of": 2})",
        R"({"suffix": "x"})", R"({"audio": {}})",
        R"({"modalities": ["text", "audio"]})",
        R"({"prediction": {"type": "content"}})"}) {
    const auto body = Json::parse(text);
    const std::string name = body.items().begin().key();
    expect_error(parse(body), ErrorKind::unsupported, name, {name});
  }
  for (const char* text : {R"({"echo": true})", R"({"n_probs": 2})"}) {
    const auto body = Json::parse(text);
    const std::string name = body.items().begin().key();
    expect_error(parse(body, EndpointKind::chat), ErrorKind::unsupported, name,
                 {name});
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
  const auto parsed = parse(body);
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
