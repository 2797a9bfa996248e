#include "server/text_endpoints.h"

#include "api/expect_error.h"
#include "server/prepare.h"
#include "server/test_model.h"

namespace reprise {
namespace {

const ModelServices& model() {
  static const auto kModel = test_model();
  return kModel;
}

Json answer(Endpoint endpoint, const std::string& body) {
  return answer_text(endpoint, body, model()).value();
}

constexpr char kMessages[] =
    R"("messages": [{"role": "developer", "content": "be<|end|>"},
                    {"role": "user", "content": "Hi"}])";

TEST(TextEndpoints, TokenizeAndBack) {
  const auto json = answer(Endpoint::tokenize, R"({"content": "ab<|end|>"})");
  auto ids =
      *model().tokenizer->encode("ab<|end|>", Tokenizer::Specials::parse);
  EXPECT_EQ(json["tokens"], Json(ids));
  EXPECT_EQ(ids.back(), kTestEnd);
  EXPECT_EQ(json["count"], ids.size());
  EXPECT_EQ(json["max_model_len"], kTestContext);
  const auto text =
      answer(Endpoint::detokenize, Json{{"tokens", json["tokens"]}}.dump());
  EXPECT_EQ(text["content"], "ab<|end|>");
  EXPECT_EQ(text["prompt"], "ab<|end|>");
  const auto plain = answer(
      Endpoint::tokenize, R"({"content": "<|end|>", "parse_special": false})");
  for (const auto& id : plain["tokens"]) EXPECT_NE(id, kTestEnd);
}

TEST(TextEndpoints, MessagesAreTheChatsIds) {
  const auto chat =
      prepare(Endpoint::chat, std::string("{") + kMessages + "}", model());
  const auto& ids = chat->prompts[0].request.prompt;
  const auto json =
      answer(Endpoint::tokenize, std::string("{") + kMessages + "}");
  EXPECT_EQ(json["tokens"], Json(ids));
  const auto text =
      answer(Endpoint::apply_template, std::string("{") + kMessages + "}");
  EXPECT_EQ(text["prompt"],
            "<|system|>be<|end|><|end|><|user|>Hi<|end|><|assistant|>");
  const auto open = answer(
      Endpoint::apply_template,
      std::string("{\"add_generation_prompt\": false, ") + kMessages + "}");
  EXPECT_EQ(open["prompt"], "<|system|>be<|end|><|end|><|user|>Hi<|end|>");
}

TEST(TextEndpoints, FaultsAreErrors) {
  const auto of = [](Endpoint endpoint, const std::string& body) {
    return answer_text(endpoint, body, model());
  };
  expect_error(of(Endpoint::tokenize, "{"), ErrorKind::invalid, "", {"JSON"});
  expect_error(of(Endpoint::tokenize, R"({"content": "x", "model": "other"})"),
               ErrorKind::not_found, "model", {"other"});
  expect_error(of(Endpoint::detokenize, R"({"tokens": [512]})"),
               ErrorKind::invalid, "tokens[0]", {"512"});
  expect_error(of(Endpoint::apply_template, "{}"), ErrorKind::invalid,
               "messages", {"at least one"});
  const std::string text(std::size_t{2} << 20, '1');
  for (const char* more : {"", R"(, "parse_special": false)"}) {
    const auto refused =
        of(Endpoint::tokenize, "{\"content\": \"" + text + "\"" + more + "}");
    EXPECT_FALSE(refused) << more;
  }
}

}  // namespace
}  // namespace reprise
