// The endpoints of text: tokenize, detokenize, apply_template.
#include "api/tokenize.h"

#include "api/apply_template.h"
#include "api/detokenize.h"
#include "api/expect_error.h"

namespace reprise {
namespace {

Result<TokenizeRequest> parse(const char* body) {
  return parse_tokenize_request(Json::parse(body));
}

TEST(Tokenize, LlamaCppsForm) {
  const auto plain = parse(R"({"content": "x"})");
  EXPECT_EQ(plain->text, "x");
  EXPECT_FALSE(plain->add_special || plain->with_pieces || plain->is_chat);
  EXPECT_TRUE(plain->parse_special);
  const auto all = parse(R"({"content": "", "add_special": true,
                             "parse_special": false, "with_pieces": true})");
  EXPECT_TRUE(all->add_special && all->with_pieces);
  EXPECT_FALSE(all->parse_special);
}

TEST(Tokenize, VllmsForm) {
  const auto prompt = parse(R"({"prompt": "x", "return_token_strs": true})");
  EXPECT_TRUE(prompt->add_special && prompt->token_strings);
  EXPECT_FALSE(
      parse(R"({"prompt": "x", "add_special_tokens": false})")->add_special);
  EXPECT_TRUE(parse(R"({"messages": []})")->is_chat);
}

TEST(Tokenize, FaultsAreNamed) {
  expect_error(parse("{}"), ErrorKind::invalid, "content", {"messages"});
  expect_error(parse(R"({"content": 5})"), ErrorKind::invalid, "content",
               {"a string", "5"});
  expect_error(parse(R"({"content": "a", "prompt": "b"})"), ErrorKind::invalid,
               "prompt", {"`content`", "one of them"});
  expect_error(parse(R"({"content": "a", "with_pieces": 1})"),
               ErrorKind::invalid, "with_pieces", {"true or false"});
}

TEST(Tokenize, TheReplyHasWhatWasAskedFor) {
  const TokenBytesOf bytes_of = [](TokenId id) {
    return id < 128 ? std::string(1, static_cast<char>(id))
                    : std::string("\xe4");
  };
  const std::vector<TokenId> ids = {'a', 200};
  EXPECT_EQ(tokenize_reply({}, ids, 99, bytes_of).dump(),
            R"({"count":2,"max_model_len":99,"tokens":[97,200]})");
  EXPECT_EQ(
      tokenize_reply({.with_pieces = true}, ids, 99, bytes_of)["tokens"].dump(),
      R"([{"id":97,"piece":"a"},{"id":200,"piece":[228]}])");
  EXPECT_EQ(
      tokenize_reply({.token_strings = true}, ids, 99, bytes_of)["token_strs"]
          .dump(),
      R"(["a","\\xe4"])");
}

TEST(Detokenize, IdsAreChecked) {
  const auto of = [](const char* body) {
    return parse_detokenize_request(Json::parse(body), 10);
  };
  EXPECT_EQ(*of(R"({"tokens": [0, 9]})"), (std::vector<TokenId>{0, 9}));
  EXPECT_TRUE(of(R"({"tokens": []})")->empty());
  expect_error(of("{}"), ErrorKind::invalid, "tokens", {"null"});
  expect_error(of(R"({"tokens": [3, 10]})"), ErrorKind::invalid, "tokens[1]",
               {"10", "from 0 to 9"});
  EXPECT_EQ(detokenize_reply("x").dump(), R"({"content":"x","prompt":"x"})");
}

TEST(ApplyTemplate, TheGenerationPromptMayBeLeftOut) {
  EXPECT_TRUE(*parse_generation_prompt(Json::object()));
  EXPECT_FALSE(
      *parse_generation_prompt(Json{{"add_generation_prompt", false}}));
  expect_error(parse_generation_prompt(Json{{"add_generation_prompt", 1}}),
               ErrorKind::invalid, "add_generation_prompt", {"true or false"});
  EXPECT_EQ(apply_template_reply("x").dump(), R"({"prompt":"x"})");
}

}  // namespace
}  // namespace reprise
