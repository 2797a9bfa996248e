#include "server/prepare.h"

#include "api/expect_error.h"
#include "server/test_model.h"

namespace reprise {
namespace {

const ModelServices& model() {
  static const auto kModel = test_model();
  return kModel;
}

Result<PreparedReply> chat(const std::string& body) {
  return prepare(Endpoint::chat, body, model());
}
Result<PreparedReply> completion(const std::string& body) {
  return prepare(Endpoint::completions, body, model());
}

// The engine's request for the only choice of a body with this parameter.
Request with(const std::string& parameter) {
  const auto p = completion("{\"prompt\": \"x\", " + parameter + "}");
  EXPECT_TRUE(p) << parameter << ": " << p.error().message;
  return request_of(*p, 0);
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
  EXPECT_EQ(request_of(*p, 0).prompt, expected)
      << "what a client writes stays text";
  EXPECT_EQ(request_of(*p, 0).max_tokens, 5);
  EXPECT_EQ(request_of(*p, 0).sampling.seed, 3u);
  EXPECT_EQ(request_of(*p, 0).stop_tokens, std::vector<TokenId>{kTestEnd});
  EXPECT_TRUE(request_of(*p, 0).cache_prompt);
}

TEST(Prepare, MarksAreForAModelThatKeepsSnapshots) {
  const std::string body =
      R"({"messages": [{"role": "system", "content": "Be!"},
                       {"role": "user", "content": "Hi"}])";
  EXPECT_TRUE(request_of(*chat(body + "}"), 0).marks.empty());
  auto keeps = model();
  keeps.keeps_snapshots = true;
  const auto marks = [&](Endpoint endpoint, const std::string& json) {
    return request_of(prepare(endpoint, json, keeps).value(), 0).marks;
  };
  // <|system|>Be!<|end|><|user|>
  EXPECT_EQ(marks(Endpoint::chat, body + "}"), std::vector<int>{6});
  EXPECT_TRUE(
      marks(Endpoint::chat, body + R"(, "cache_prompt": false})").empty());
  EXPECT_TRUE(marks(Endpoint::completions, R"({"prompt": "x"})").empty());
}

TEST(Prepare, ACompletionParsesSpecialTokens) {
  const auto p = completion(
      R"({"prompt": "Hi<|end|>", "ignore_eos": true, "cache_prompt": false})");
  ASSERT_TRUE(p) << p.error().message;
  auto expected = test_ids("Hi");
  expected.push_back(kTestEnd);
  EXPECT_EQ(request_of(*p, 0).prompt, expected);
  EXPECT_TRUE(request_of(*p, 0).stop_tokens.empty());
  EXPECT_FALSE(request_of(*p, 0).cache_prompt);
}

TEST(Prepare, SeedsAreDrawnWhereNoneIsGiven) {
  const auto a = completion(R"({"prompt": "x"})");
  const auto b = completion(R"({"prompt": "x"})");
  EXPECT_NE(request_of(*a, 0).sampling.seed, request_of(*b, 0).sampling.seed);
}

std::string ids_body(int count, const std::string& more) {
  std::string body = "{\"prompt\": [1";
  for (int i = 1; i < count; ++i) body += ",1";
  return body + "]" + more + "}";
}

TEST(Prepare, RepliesAreCutToTheContext) {
  const auto room = [](const std::string& body) {
    return request_of(*completion(body), 0).max_tokens;
  };
  EXPECT_EQ(room(ids_body(97, "")), 3);
  EXPECT_EQ(room(ids_body(97, ",\"max_tokens\": 50")), 3);
  EXPECT_EQ(room(ids_body(97, ",\"max_tokens\": 2")), 2);
  EXPECT_EQ(room(ids_body(99, "")), 1);
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

// What the engine is told, field by field: a parameter that is read and then
// dropped turns this red.
TEST(Prepare, EveryParameterReachesTheEngine) {
  EXPECT_EQ(with(R"("temperature": 0.5)").sampling.temperature, 0.5f);
  EXPECT_EQ(with(R"("top_k": 7)").sampling.top_k, 7);
  EXPECT_EQ(with(R"("top_p": 0.25)").sampling.top_p, 0.25f);
  EXPECT_EQ(with(R"("min_p": 0.25)").sampling.min_p, 0.25f);
  EXPECT_EQ(with(R"("seed": 5)").sampling.seed, 5u);
  EXPECT_EQ(with(R"("repetition_penalty": 2)").sampling.repetition_penalty,
            2.0f);
  EXPECT_EQ(with(R"("repeat_last_n": 3)").sampling.repetition_window, 3);
  EXPECT_EQ(with(R"("presence_penalty": 1)").sampling.presence_penalty, 1.0f);
  EXPECT_EQ(with(R"("frequency_penalty": 1)").sampling.frequency_penalty, 1.0f);
  EXPECT_EQ(with(R"("max_tokens": 4)").max_tokens, 4);
  EXPECT_EQ(with(R"("n_predict": 4)").max_tokens, 4);
  EXPECT_EQ(with(R"("min_tokens": 4)").min_tokens, 4);
  EXPECT_EQ(with(R"("stop_token_ids": [9])").stop_tokens,
            (std::vector<TokenId>{kTestEnd, 9}));
  EXPECT_EQ(with(R"("stop_token_ids": [9], "ignore_eos": true)").stop_tokens,
            (std::vector<TokenId>{9}));
  EXPECT_FALSE(with(R"("cache_prompt": false)").cache_prompt);
  EXPECT_FALSE(with(R"("n": 2)").logprobs);
  EXPECT_EQ(with(R"("logprobs": 3)").logprobs, 3);
  EXPECT_FALSE(with(R"("logprobs": 3)").prompt_logprobs);
  EXPECT_EQ(with(R"("prompt_logprobs": 0)").prompt_logprobs, 0);
  EXPECT_EQ(with(R"("logprobs": 3, "echo": true)").prompt_logprobs, 3);
  EXPECT_EQ(with(R"("logprobs": 3, "echo": true, "prompt_logprobs": 5)")
                .prompt_logprobs,
            5);
}

TEST(Prepare, BiasesOfWordsReachTheirTokens) {
  const auto biases = with(R"("logit_bias": [["ab", -1], [40, 2], ["!", 3]])")
                          .sampling.logit_bias;
  const auto of = [&](TokenId id) {
    for (const auto& bias : biases)
      if (bias.token == id) return bias.bias;
    return 0.0f;
  };
  const auto ab =
      model().tokenizer->encode("ab", Tokenizer::Specials::text).value();
  EXPECT_EQ(biases.size(), ab.size() + 2);
  for (const TokenId id : ab) EXPECT_EQ(of(id), -1.0f);
  EXPECT_EQ(of(40), 2.0f);
  EXPECT_EQ(of(0), 3.0f);
  const auto named =
      with(R"("logit_bias": [["!", 3], [0, 1]])").sampling.logit_bias;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].bias, 1.0f) << "an id that was named keeps its own";
  for (const auto& bias :
       with(R"("logit_bias": [["<|end|>", 1]])").sampling.logit_bias)
    EXPECT_NE(bias.token, kTestEnd) << "a special token's name is text";
}

TEST(Prepare, ChoicesDifferInTheirSeedAlone) {
  const auto three = completion(R"({"prompt": "x", "n": 3, "seed": 7})");
  EXPECT_EQ(three->choices(), 3);
  EXPECT_EQ(request_of(*three, 0).sampling.seed, 7u) << "as with n = 1";
  const auto two = completion(R"({"prompt": "x", "n": 2, "seed": 7})");
  EXPECT_EQ(request_of(*three, 1).sampling.seed,
            request_of(*two, 1).sampling.seed);
  EXPECT_NE(request_of(*three, 1).sampling.seed, 7u);
  EXPECT_NE(request_of(*three, 1).sampling.seed,
            request_of(*three, 2).sampling.seed);
  EXPECT_EQ(request_of(*three, 2).prompt, request_of(*three, 0).prompt);
}

TEST(Prepare, SeveralPromptsAreInOrder) {
  const auto p = completion(R"({"prompt": ["x", [5, 6]], "n": 2, "seed": 7})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->choices(), 4);
  for (const int choice : {0, 1})
    EXPECT_EQ(request_of(*p, choice).prompt, test_ids("x"));
  for (const int choice : {2, 3})
    EXPECT_EQ(request_of(*p, choice).prompt, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(request_of(*p, 2).sampling.seed, 7u);
  const auto long_one =
      completion(R"({"prompt": ["x", ")" + std::string(200, '!') + R"("]})");
  expect_error(long_one, ErrorKind::invalid, "prompt[1]", {"200", "100"});
}

TEST(Prepare, APromptMayFillTheContextIfThereIsToBeNoReply) {
  EXPECT_EQ(request_of(*completion(ids_body(100, ",\"max_tokens\": 0")), 0)
                .max_tokens,
            0);
  expect_error(completion(ids_body(101, ",\"max_tokens\": 0")),
               ErrorKind::invalid, "prompt", {"101", "at most 100"});
}

TEST(Prepare, EchoShowsThePromptAsItWasSent) {
  EXPECT_EQ(
      completion(R"({"prompt": "a<|end|>b", "echo": true})")->prompts[0].text,
      "a<|end|>b");
  const auto ids = Json(test_ids("ab")).dump();
  EXPECT_EQ(
      completion("{\"echo\": true, \"prompt\": " + ids + "}")->prompts[0].text,
      "ab");
}

TEST(Prepare, PaddingOfTheVocabularyIsNeverDrawn) {
  EXPECT_EQ(with(R"("n": 1)").sampling.vocabulary, 0);
  auto padded = model();
  padded.vocabulary = kTestVocabulary + 100;
  const auto p = prepare(Endpoint::completions, R"({"prompt": "x"})", padded);
  EXPECT_EQ(request_of(*p, 0).sampling.vocabulary, kTestVocabulary);
}

TEST(Prepare, ATemplateThatKnowsNoEffortRefusesIt) {
  expect_error(chat(R"({"messages": [{"role": "user", "content": "x"}],
                        "reasoning_effort": "low"})"),
               ErrorKind::unsupported, "reasoning_effort",
               {"\"low\"", "org/tiny"});
  auto knows = model();
  knows.chat_template =
      ChatTemplate::compile("{{ messages[0].content }}{{ reasoning_effort }}",
                            {})
          .value();
  const auto p = prepare(Endpoint::chat,
                         R"({"messages": [{"role": "user", "content": "x"}],
                             "reasoning_effort": "low"})",
                         knows);
  EXPECT_EQ(
      request_of(*p, 0).prompt,
      model().tokenizer->encode("xlow", Tokenizer::Specials::text).value());
}

TEST(Prepare, ThinkingIsSeenInTemplateAndPrompt) {
  EXPECT_FALSE(
      chat(R"({"messages": [{"role": "user", "content": "x"}]})")->reasoning);
  auto thinks = model();
  thinks.chat_template =
      ChatTemplate::compile(
          "{{ messages[0].content }}{% if enable_thinking is "
          "false %}<think></think>{% endif %}",
          {})
          .value();
  const auto of = [&](const char* more) {
    return prepare(Endpoint::chat,
                   R"({"messages": [{"role": "user", "content": "x"}])" +
                       std::string(more) + "}",
                   thinks)
        .value();
  };
  EXPECT_EQ(of("").reasoning->start, ReplyStart::open);
  EXPECT_FALSE(of("").reasoning->in_content);
  EXPECT_EQ(of(R"(, "enable_thinking": false)").reasoning->start,
            ReplyStart::content);
  EXPECT_EQ(of(R"(, "reasoning_effort": "none")").reasoning->start,
            ReplyStart::content);
  EXPECT_TRUE(of(R"(, "reasoning_format": "none")").reasoning->in_content);
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
