#include "server/prepare.h"

#include "api/expect_error.h"
#include "server/test_model.h"

namespace reprise {
namespace {

const ModelServices& model() {
  static const auto kModel = test_model();
  return kModel;
}

Result<PreparedRequest> chat(const std::string& body) {
  return prepare(Endpoint::chat, body, model());
}
Result<PreparedRequest> completion(const std::string& body) {
  return prepare(Endpoint::completions, body, model());
}

TEST(Prepare, AChatGoesThroughTheTemplate) {
  const auto p = chat(
      R"({"messages": [{"role": "user", "content": "Hi<|end|>"}],
          "max_tokens": 5, "temperature": 0, "seed": 3})");
  ASSERT_TRUE(p) << p.error().message;
  const auto said =
      model().tokenizer->encode("Hi<|end|>", Tokenizer::Specials::text);
  std::vector<TokenId> expected = {497};
  expected.insert(expected.end(), said->begin(), said->end());
  expected.insert(expected.end(), {499, 498});
  EXPECT_EQ(p->request.prompt, expected) << "what a client writes stays text";
  EXPECT_EQ(p->request.max_tokens, 5);
  EXPECT_EQ(p->request.sampling.seed, 3u);
  EXPECT_EQ(p->request.stop_tokens, std::vector<TokenId>{kTestEnd});
  EXPECT_TRUE(p->request.cache_prompt);
}

TEST(Prepare, ACompletionParsesSpecialTokens) {
  const auto p = completion(
      R"({"prompt": "Hi<|end|>", "ignore_eos": true, "cache_prompt": false})");
  ASSERT_TRUE(p) << p.error().message;
  auto expected = test_ids("Hi");
  expected.push_back(kTestEnd);
  EXPECT_EQ(p->request.prompt, expected);
  EXPECT_TRUE(p->request.stop_tokens.empty());
  EXPECT_FALSE(p->request.cache_prompt);
}

TEST(Prepare, SeedsAreDrawnWhereNoneIsGiven) {
  const auto a = completion(R"({"prompt": "x"})");
  const auto b = completion(R"({"prompt": "x"})");
  EXPECT_NE(a->request.sampling.seed, b->request.sampling.seed);
}

std::string ids_body(int count, const std::string& more) {
  std::string body = "{\"prompt\": [1";
  for (int i = 1; i < count; ++i) body += ",1";
  return body + "]" + more + "}";
}

TEST(Prepare, RepliesAreCutToTheContext) {
  EXPECT_EQ(completion(ids_body(97, ""))->request.max_tokens, 3);
  EXPECT_EQ(completion(ids_body(97, ",\"max_tokens\": 50"))->request.max_tokens,
            3);
  EXPECT_EQ(completion(ids_body(97, ",\"max_tokens\": 2"))->request.max_tokens,
            2);
  EXPECT_EQ(completion(ids_body(99, ""))->request.max_tokens, 1);
}

TEST(Prepare, APromptThatFillsTheContextIsRefused) {
  for (const int count : {100, 101, 300}) {
    const auto p = completion(ids_body(count, ""));
    expect_error(p, ErrorKind::invalid, "prompt",
                 {std::to_string(count), "100"});
    EXPECT_EQ(p.error().code, "context_length_exceeded");
  }
  const auto p = chat(R"({"messages": [{"role": "user", "content": ")" +
                      std::string(200, '!') + "\"}]}");
  expect_error(p, ErrorKind::invalid, "messages", {"203", "100"});
  EXPECT_EQ(p.error().code, "context_length_exceeded");
}

// Tokenizing it to the end would take half a minute and gigabytes.
TEST(Prepare, APromptOfMegabytesIsRefusedUntokenized) {
  const std::string text(std::size_t{30} << 20, '1');
  for (const auto& p :
       {chat(std::string(R"({"messages": [{"role": "user", "content": ")") +
             text + "\"}]}"),
        completion(std::string(R"({"prompt": ")") + text + "\"}")}) {
    ASSERT_FALSE(p);
    EXPECT_EQ(p.error().code, "context_length_exceeded");
    EXPECT_NE(p.error().message.find("tokens or more"), std::string::npos)
        << p.error().message;
  }
  std::string specials;
  for (int i = 0; i < 100'000; ++i) specials += "<|end|>";
  const auto p = completion(std::string(R"({"prompt": ")") + specials + "\"}");
  expect_error(p, ErrorKind::invalid, "prompt", {"tokens or more"});
}

TEST(Prepare, TheModelsNameIsChecked) {
  EXPECT_TRUE(completion(R"({"prompt": "x", "model": "org/tiny"})"));
  EXPECT_TRUE(completion(R"({"prompt": "x", "model": ""})"));
  const auto p = completion(R"({"model": "gpt-nobody"})");
  expect_error(p, ErrorKind::not_found, "model", {"gpt-nobody", "org/tiny"});
  EXPECT_EQ(p.error().code, "model_not_found");
}

TEST(Prepare, NoTemplateNoChat) {
  auto bare = model();
  bare.chat_template = nullptr;
  expect_error(
      prepare(Endpoint::chat,
              R"({"messages": [{"role": "user", "content": "x"}]})", bare),
      ErrorKind::unsupported, "messages", {"chat template", "org/tiny"});
}

TEST(Prepare, FaultsOfEveryRingAreErrors) {
  expect_error(completion("{"), ErrorKind::invalid, "", {"JSON"});
  expect_error(completion(R"({"prompt": [512]})"), ErrorKind::invalid,
               "prompt[0]", {"512"});
  expect_error(completion(R"({"prompt": "x", "top_p": 2})"), ErrorKind::invalid,
               "top_p", {"2"});
}

}  // namespace
}  // namespace reprise
