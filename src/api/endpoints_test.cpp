// chat_completions, completions, models, reply and errors: JSON in, JSON out.
#include <vector>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/errors.h"
#include "api/expect_error.h"
#include "api/fields.h"
#include "api/models.h"
#include "api/reply.h"

namespace reprise {
namespace {

Json user(Json content) {
  Json message;
  message["role"] = "user";
  message["content"] = std::move(content);
  return message;
}

Result<ChatRequest> chat_of(Json messages) {
  return parse_chat_request(Json{{"messages", std::move(messages)}}, 512);
}

TEST(ChatRequest, TakesContentInEveryForm) {
  const auto messages = Json::parse(R"([
      {"role": "developer", "content": "a"},
      {"role": "user", "content": [{"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
      {"role": "tool", "content": [], "tool_call_id": "1"},
      {"role": "user"}])");
  const auto chat = chat_of(messages);
  ASSERT_TRUE(chat) << chat.error().message;
  Json expected = messages;
  expected[0]["role"] = "system";
  EXPECT_EQ(chat->messages, expected);
}

TEST(ChatRequest, NamesThePlaceOfAFault) {
  const auto invalid = ErrorKind::invalid;
  for (const Json& messages :
       {Json(nullptr), Json::array(), Json("hello"), user("x")})
    expect_error(chat_of(messages), invalid, "messages", {"at least one"});
  expect_error(parse_chat_request(Json::object(), 512), invalid, "messages",
               {});
  expect_error(chat_of(Json::array({user("x"), "y"})), invalid, "messages[1]",
               {"\"y\""});
  expect_error(chat_of(Json::parse(R"([{"content": "x"}])")), invalid,
               "messages[0].role", {"null", "assistant"});
  expect_error(chat_of(Json::parse(R"([{"role": "wizard"}])")), invalid,
               "messages[0].role", {"\"wizard\""});
  expect_error(chat_of(Json::array({user(5)})), invalid, "messages[0].content",
               {"5", "text parts"});
  expect_error(chat_of(Json::array({user(Json::parse("[5]"))})), invalid,
               "messages[0].content[0]", {"5"});
  expect_error(
      chat_of(Json::array({user(Json::parse(R"([{"type": "text"}])"))})),
      invalid, "messages[0].content[0].text", {"a string"});
  expect_error(
      chat_of(Json::parse(R"([{"role": "assistant", "tool_calls": [1]}])")),
      invalid, "messages[0].tool_calls[0]", {"an object"});
}

TEST(ChatRequest, ImagesAreNotServedAndSaidSo) {
  const auto parts = Json::parse(
      R"([{"type": "text", "text": "x"},
          {"type": "image_url", "image_url": {"url": "data:"}}])");
  const auto chat = chat_of(Json::array({user(parts)}));
  expect_error(chat, ErrorKind::unsupported, "messages[0].content[1]",
               {"image_url", "Images are not served by this model"});
}

TEST(ChatRequest, TemplateArgumentsAreAnObject) {
  Json body = {{"messages", Json::array({user("x")})},
               {"chat_template_kwargs", {{"z", 1}, {"a", 2}}}};
  EXPECT_EQ(parse_chat_request(body, 512)->template_kwargs.dump(),
            R"({"z":1,"a":2})");
  body["chat_template_kwargs"] = Json::array({1});
  expect_error(parse_chat_request(body, 512), ErrorKind::invalid,
               "chat_template_kwargs", {"an object"});
}

Result<CompletionRequest> completion_of(const char* prompt) {
  return parse_completion_request(
      Json::parse(std::string("{\"prompt\": ") + prompt + "}"), 512);
}

TEST(CompletionRequest, TakesPromptsInEveryForm) {
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(std::get<std::string>(completion_of("\"x\"")->prompts[0]), "x");
  EXPECT_EQ(std::get<std::string>(completion_of("[\"x\"]")->prompts[0]), "x");
  EXPECT_EQ(std::get<Ids>(completion_of("[0, 511]")->prompts[0]),
            (Ids{0, 511}));
  EXPECT_EQ(std::get<Ids>(completion_of("[[7]]")->prompts[0]), (Ids{7}));
  const auto several = completion_of(R"(["a", [7, 8], "b"])")->prompts;
  ASSERT_EQ(several.size(), 3u);
  EXPECT_EQ(std::get<std::string>(several[0]), "a");
  EXPECT_EQ(std::get<Ids>(several[1]), (Ids{7, 8}));
  EXPECT_EQ(std::get<std::string>(several[2]), "b");
}

TEST(CompletionRequest, ChoicesAreCountedOverAllPrompts) {
  const auto of = [](std::size_t prompts, int n) {
    return parse_completion_request(
        Json{{"prompt", Json(prompts, "x")}, {"n", n}}, 512);
  };
  EXPECT_EQ(of(128, 1)->prompts.size(), 128u);
  EXPECT_EQ(of(64, 2)->prompts.size(), 64u);
  expect_error(of(129, 1), ErrorKind::invalid, "prompt",
               {"an array of 129", "at most 128"});
  expect_error(of(65, 2), ErrorKind::invalid, "prompt",
               {"an array of 65", "at most 64", "n is 2"});
}

TEST(CompletionRequest, NamesBadIdsAndTheVocabulary) {
  const auto bad = [](const char* prompt, const char* place,
                      const char* shown) {
    expect_error(completion_of(prompt), ErrorKind::invalid, place, {shown});
  };
  for (const char* id : {"512", "-1", "2147483648", "-9223372036854775808",
                         "18446744073709551615", "1.5"}) {
    const auto prompt = std::string("[3, ") + id + "]";
    bad(prompt.c_str(), "prompt[1]", id);
    bad(prompt.c_str(), "prompt[1]", "from 0 to 511");
  }
  bad("[[3, \"a\"]]", "prompt[0][1]", "\"a\"");
  bad("5", "prompt", "5");
  bad("{}", "prompt", "{}");
  bad("[]", "prompt", "[]");
  bad("[[]]", "prompt[0]", "[]");
  bad("\"\"", "prompt", "\"\"");
  bad("null", "prompt", "null");
  bad("[true]", "prompt[0]", "true");
  bad(R"(["a", ""])", "prompt[1]", "\"\"");
  bad(R"(["a", 5])", "prompt[1]", "5");
  bad("[[1], [2, 600]]", "prompt[1][1]", "600");
}

TEST(ChatRequest, Thinking) {
  const auto of = [](const char* more) {
    return parse_chat_request(
        Json::parse(std::string(R"({"messages": [{"role": "user"}], )") + more +
                    "}"),
        512);
  };
  EXPECT_EQ(of(R"("enable_thinking": false)")->template_kwargs.dump(),
            R"({"enable_thinking":false})");
  EXPECT_EQ(of(R"("reasoning_effort": "none")")->template_kwargs.dump(),
            R"({"enable_thinking":false})");
  EXPECT_EQ(of(R"("reasoning_effort": "low")")->reasoning_effort, "low");
  EXPECT_TRUE(of(R"("reasoning_format": "none")")->reasoning_in_content);
  EXPECT_FALSE(of(R"("reasoning_format": "auto")")->reasoning_in_content);
  EXPECT_FALSE(of(R"("n": 1)")->reasoning_in_content);
  expect_error(of(R"("enable_thinking": 1)"), ErrorKind::invalid,
               "enable_thinking", {"true or false"});
  expect_error(of(R"("reasoning_format": "x")"), ErrorKind::invalid,
               "reasoning_format", {"\"x\"", "none, auto, deepseek"});
  expect_error(of(R"("reasoning_effort": "x")"), ErrorKind::invalid,
               "reasoning_effort", {"\"x\"", "none, minimal, low"});
  expect_error(of(R"("enable_thinking": true, "reasoning_effort": "none")"),
               ErrorKind::invalid, "reasoning_effort", {"true", "\"none\""});
  expect_error(of(R"("enable_thinking": true,
                     "chat_template_kwargs": {"enable_thinking": false})"),
               ErrorKind::invalid, "enable_thinking", {"true", "false"});
}

const ReplyHead kHead{"id-1", 1700000000, "model-1"};
const ReplyEnd kEnd{.prompt_tokens = 10,
                    .completion_tokens = 5,
                    .cache = {.memory_tokens = 4,
                              .disk_tokens = 2,
                              .remote_tokens = 1,
                              .evaluated_tokens = 3,
                              .miss_reason = MissReason::name_space,
                              .miss_position = 7},
                    .timings = {.queue_ms = 1.5,
                                .restore_ms = 2.5,
                                .prompt_ms = 30,
                                .predicted_ms = 200,
                                .predicted_n = 99}};

TEST(Reply, UsageCacheAndTimings) {
  EXPECT_EQ(usage_json(kEnd).dump(),
            R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,)"
            R"("prompt_tokens_details":{"cached_tokens":7}})");
  ReplyEnd thought = kEnd;
  thought.reasoning_tokens = 3;
  EXPECT_EQ(usage_json(thought)["completion_tokens_details"].dump(),
            R"({"reasoning_tokens":3})");
  EXPECT_EQ(cache_json(kEnd.cache).dump(),
            R"({"memory_tokens":4,"disk_tokens":2,"remote_tokens":1,)"
            R"("evaluated_tokens":3,"miss_reason":"namespace",)"
            R"("miss_position":7})");
  const auto timings = timings_json(kEnd);
  EXPECT_EQ(timings["cache_n"], 7);
  EXPECT_EQ(timings["prompt_n"], 3);
  EXPECT_EQ(timings["prompt_per_second"], 100.0);
  EXPECT_EQ(timings["predicted_n"], 5);
  EXPECT_EQ(timings["predicted_per_second"], 20.0);  // 4 after the first
  EXPECT_EQ(timings["queue_ms"], 1.5);
  EXPECT_EQ(timings["restore_ms"], 2.5);
}

TEST(Reply, AFullHitHasNoMissAndNoTimeNoSpeed) {
  const auto cache = cache_json({.memory_tokens = 9, .miss_position = 9});
  EXPECT_TRUE(cache["miss_reason"].is_null());
  EXPECT_TRUE(cache["miss_position"].is_null());
  const auto timings = timings_json(ReplyEnd{});
  EXPECT_EQ(timings["prompt_per_second"], 0.0);
  EXPECT_EQ(timings["predicted_per_second"], 0.0);
}

constexpr ChoiceEnd kStop{};

TEST(ChatReply, Whole) {
  const std::vector<TokenId> ids = {1, 2}, prompt = {3};
  const ReplyPart part{.text = "hi",
                       .end = &kStop,
                       .show_token_ids = true,
                       .token_ids = ids,
                       .prompt_token_ids = prompt};
  const auto reply = chat_reply(kHead, {{part}}, kEnd);
  EXPECT_EQ(reply["id"], "id-1");
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_EQ(reply["created"], 1700000000);
  EXPECT_EQ(reply["model"], "model-1");
  EXPECT_EQ(reply["choices"].size(), 1u);
  const auto& choice = reply["choices"][0];
  EXPECT_EQ(choice["message"].dump(), R"({"role":"assistant","content":"hi"})");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["token_ids"], Json::array({1, 2}));
  EXPECT_FALSE(choice.contains("cache"));
  EXPECT_EQ(reply["prompt_token_ids"], Json::array({3}));
  EXPECT_EQ(reply["usage"], usage_json(kEnd));
  EXPECT_EQ(reply["cache"], cache_json(kEnd.cache));
  EXPECT_EQ(reply["timings"], timings_json(kEnd));
}

TEST(ChatReply, ChoicesHaveTheirIndexAndCache) {
  const CacheReport cache{.memory_tokens = 9, .evaluated_tokens = 1};
  const ChoiceEnd cut{.length = true, .cache = &cache};
  const std::vector<ReplyPart> parts = {
      {.index = 0, .text = "a", .end = &kStop},
      {.index = 1, .text = "b", .end = &cut, .logprobs = Json{{"x", 1}}}};
  const auto reply = chat_reply(kHead, parts, kEnd);
  ASSERT_EQ(reply["choices"].size(), 2u);
  const auto& second = reply["choices"][1];
  EXPECT_EQ(second["index"], 1);
  EXPECT_EQ(second["message"]["content"], "b");
  EXPECT_EQ(second["finish_reason"], "length");
  EXPECT_EQ(second["cache"], cache_json(cache));
  EXPECT_EQ(second["logprobs"]["x"], 1);
  EXPECT_TRUE(reply["choices"][0]["logprobs"].is_null());
}

TEST(ChatReply, ThoughtsStandUnderBothNames) {
  const ReplyPart part{.text = "yes",
                       .reasoning = "why",
                       .content_may_wait = true,
                       .end = &kStop};
  EXPECT_EQ(chat_reply(kHead, {{part}}, kEnd)["choices"][0]["message"].dump(),
            R"({"role":"assistant","content":"yes",)"
            R"("reasoning_content":"why","reasoning":"why"})");
  EXPECT_EQ(chat_chunk(kHead, part)["choices"][0]["delta"].dump(),
            R"({"content":"yes","reasoning_content":"why","reasoning":"why"})");
  ReplyPart thought = part;
  thought.text = "";
  EXPECT_TRUE(
      chat_reply(kHead, {{thought}}, kEnd)["choices"][0]["message"]["content"]
          .is_null());
  EXPECT_FALSE(
      chat_chunk(kHead, thought)["choices"][0]["delta"].contains("content"));
  thought.first = true;
  thought.reasoning = "";
  EXPECT_EQ(chat_chunk(kHead, thought)["choices"][0]["delta"].dump(),
            R"({"role":"assistant"})");
}

TEST(ChatReply, Chunks) {
  const auto first = chat_chunk(kHead, {.index = 2, .first = true});
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["index"], 2);
  EXPECT_EQ(first["choices"][0]["delta"].dump(),
            R"({"role":"assistant","content":""})");
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(first.contains("usage") || first.contains("cache") ||
               first["choices"][0].contains("token_ids"));

  const auto middle = chat_chunk(kHead, {.text = "x"});
  EXPECT_EQ(middle["choices"][0]["delta"].dump(), R"({"content":"x"})");

  const ChoiceEnd cut{.length = true};
  const auto last = chat_chunk(kHead, {.end = &cut});
  EXPECT_EQ(last["choices"][0]["delta"].dump(), "{}");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(last.contains("usage"));

  const auto usage = usage_chunk(kHead, kChatChunkObject, kEnd);
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"], usage_json(kEnd));
}

TEST(CompletionReply, WholeAndChunk) {
  const std::vector<TokenId> ids = {1}, prompt = {3, 4};
  const ReplyPart part{.text = "hi",
                       .end = &kStop,
                       .prompt_logprobs = Json::array({nullptr}),
                       .show_token_ids = true,
                       .token_ids = ids,
                       .prompt_token_ids = prompt};
  const auto whole = completion_reply(kHead, {{part}}, kEnd);
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "hi");
  EXPECT_EQ(whole["choices"][0]["token_ids"], Json::array({1}));
  EXPECT_EQ(whole["choices"][0]["prompt_token_ids"], Json::array({3, 4}));
  EXPECT_EQ(whole["choices"][0]["prompt_logprobs"], Json::array({nullptr}));
  EXPECT_EQ(whole["prompt_token_ids"], Json::array({3, 4}));
  EXPECT_EQ(whole["usage"], usage_json(kEnd));
  EXPECT_TRUE(whole.contains("cache") && whole.contains("timings"));

  const auto chunk = completion_chunk(kHead, {.index = 1, .text = "x"});
  EXPECT_EQ(chunk["choices"][0]["text"], "x");
  EXPECT_EQ(chunk["choices"][0]["index"], 1);
  EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(chunk.contains("usage") || chunk.contains("cache") ||
               chunk.contains("prompt_token_ids"));
}

TEST(Errors, StatusAndShape) {
  const auto status = [](ErrorKind kind) {
    return http_status(Error{kind, "m"});
  };
  EXPECT_EQ(status(ErrorKind::invalid), 400);
  EXPECT_EQ(status(ErrorKind::unsupported), 400);
  EXPECT_EQ(status(ErrorKind::not_found), 404);
  EXPECT_EQ(status(ErrorKind::too_large), 413);
  EXPECT_EQ(status(ErrorKind::busy), 429);
  EXPECT_EQ(status(ErrorKind::unavailable), 503);
  EXPECT_EQ(status(ErrorKind::corrupt), 500);
  EXPECT_EQ(status(ErrorKind::internal), 500);
  EXPECT_EQ(http_status(Error{ErrorKind::too_large, "m", "prompt",
                              "context_length_exceeded"}),
            400);
  EXPECT_EQ(error_body(400, {ErrorKind::invalid, "m", "p", "c"}).dump(),
            R"({"error":{"message":"m","type":"invalid_request_error",)"
            R"("param":"p","code":"c"}})");
  EXPECT_EQ(error_body(500, {ErrorKind::internal, "m"}).dump(),
            R"({"error":{"message":"m","type":"server_error","param":null,)"
            R"("code":null}})");
}

TEST(Errors, DumpNeverThrows) {
  EXPECT_EQ(dump(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(Models, CardAndList) {
  const ModelCard card{"m", 5, 2048, 512};
  const auto list = model_list_json(card);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"], Json::array({model_json(card)}));
  EXPECT_EQ(model_json(card).dump(),
            R"({"id":"m","object":"model","created":5,"owned_by":"reprise",)"
            R"("max_model_len":2048,"meta":{"n_ctx":2048,"n_vocab":512}})");
}

}  // namespace
}  // namespace reprise
