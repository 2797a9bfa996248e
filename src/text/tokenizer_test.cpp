#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "text/testing_text.h"

namespace reprise {
namespace {

using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using testing::metaspace_tokenizer;
using testing::tiny_vocabulary;

// 512 byte-level tokens, with roles and thinking marks.
std::shared_ptr<const Tokenizer> byte_level_tokenizer() {
  return testing::load_tokenizer("llama/hf/tokenizer.json");
}

std::shared_ptr<const Tokenizer> tiny(GgufVocabulary vocabulary) {
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

Error refused(const GgufVocabulary& vocabulary) {
  const auto tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_FALSE(tokenizer);
  return tokenizer ? Error{} : tokenizer.error();
}

// A tokenizer.json from its text, in a file that is gone afterwards.
Result<std::shared_ptr<const Tokenizer>> from_text(const std::string& json) {
  const auto path =
      (std::filesystem::temp_directory_path() /
       ("reprise-tokenizer-" + std::to_string(getpid()) + ".json"))
          .string();
  std::ofstream(path) << json;
  auto tokenizer = Tokenizer::from_file(path);
  std::filesystem::remove(path);
  return tokenizer;
}

void expect_as_python(const char* name) {
  const auto cases =
      testing::read_fixture("text/tokenizer_cases.json").at(name);
  const auto tokenizer = Tokenizer::from_file(testing::fixture_path(name));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  ASSERT_GT(cases.size(), 20u);
  for (const auto& test : cases) {
    const auto text = test.at("text").get<std::string>();
    const auto parsed = test.at("parsed").get<Ids>();
    EXPECT_EQ(*(*tokenizer)->encode(text, Specials::parse), parsed) << text;
    EXPECT_EQ(*(*tokenizer)->encode_prompt(text), parsed) << text;
    EXPECT_EQ(*(*tokenizer)->encode_prompt(text), parsed) << "again: " << text;
    EXPECT_EQ(*(*tokenizer)->encode(text, Specials::text),
              test.at("plain").get<Ids>())
        << text;
    EXPECT_EQ(*(*tokenizer)->decode(parsed, false), test.at("decoded")) << text;
    EXPECT_EQ(*(*tokenizer)->decode(parsed, true), test.at("shown")) << text;
  }
}

TEST(Tokenizer, ByteLevelAsPython) {
  expect_as_python("llama/hf/tokenizer.json");
}

// Swallowed spaces, a beginning that is treated otherwise, special tokens
// that are looked for in normalized text.
TEST(Tokenizer, MetaspaceAsPython) {
  expect_as_python("text/metaspace_tokenizer.json");
}

TEST(Tokenizer, KnowsItsTokens) {
  const auto t = byte_level_tokenizer();
  EXPECT_EQ(t->size(), 512);
  EXPECT_EQ(t->token_id("<|end|>"), 499);
  EXPECT_EQ(t->token_id("<think>"), 506);
  EXPECT_EQ(t->token_id("<|nothing|>"), -1);
  EXPECT_EQ(t->token_id("\xff"), -1);
  EXPECT_TRUE(t->is_special(499));
  EXPECT_FALSE(t->is_special(506));  // added, not special
  EXPECT_FALSE(t->is_special(0));
  EXPECT_FALSE(t->is_special(-1));
  const auto specials = t->special_tokens();
  EXPECT_EQ(specials.size(), 14u);
  EXPECT_EQ(specials.front(), "<|system|>");
}

TEST(Tokenizer, FirstTokenOfPrompts) {
  EXPECT_EQ(metaspace_tokenizer()->prompt_bos(), 1);
  EXPECT_EQ(byte_level_tokenizer()->prompt_bos(), -1);
  auto vocabulary = tiny_vocabulary();
  EXPECT_EQ(tiny(vocabulary)->prompt_bos(), -1);
  vocabulary.add_bos = true;
  EXPECT_EQ(tiny(vocabulary)->prompt_bos(), 258);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto t = byte_level_tokenizer();
  for (const char* text : {"\xff", "ok \xc3", "\xed\xa0\x80", "\xc0\x80"}) {
    const auto parsed = t->encode(text, Specials::parse);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_NE(parsed.error().message.find("UTF-8"), std::string::npos);
    EXPECT_FALSE(t->encode(text, Specials::text));
    EXPECT_FALSE(t->encode_prompt(text));
  }
  EXPECT_NE(
      t->encode("ok \xc3", Specials::parse).error().message.find("byte 3"),
      std::string::npos);
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  for (TokenId id : {-1, 512, 2147483647}) {
    const auto text = byte_level_tokenizer()->decode(Ids{65, id}, false);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().kind, ErrorKind::invalid);
    EXPECT_NE(text.error().message.find(std::to_string(id)), std::string::npos);
  }
}

TEST(Tokenizer, SaysWhyAFileIsNoTokenizer) {
  EXPECT_EQ(Tokenizer::from_file("/no/such/tokenizer.json").error().kind,
            ErrorKind::not_found);
  for (const char* json :
       {"{", "{}", "[1]", "\xff", R"({"model": {"type": "BPE"}})"}) {
    const auto tokenizer = from_text(json);
    ASSERT_FALSE(tokenizer) << json;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::corrupt) << json;
    EXPECT_NE(tokenizer.error().message.find("reprise-tokenizer"),
              std::string::npos);
  }
}

// Its pieces hold the special tokens' own texts: ordinary text could become
// one of them.
TEST(Tokenizer, SpecialsStayTextEvenIfTheModelSpellsThem) {
  const auto t = from_text(
      R"({"version": "1.0", "truncation": null, "padding": null,
          "added_tokens": [{"id": 1, "content": "<s>", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
            "special": true}],
          "normalizer": null, "pre_tokenizer": null, "post_processor": null,
          "decoder": null,
          "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0], ["<s>", 0], ["<", -3], ["s", -3],
                      [">", -3], ["a", -3], ["s>", -2]]}})");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(*(*t)->encode("a<s>a", Specials::parse), (Ids{5, 1, 5}));
  EXPECT_EQ(*(*t)->encode("a<s>a", Specials::text), (Ids{5, 2, 6, 5}));
  EXPECT_EQ(*(*t)->encode("<s><s>", Specials::text), (Ids{2, 6, 2, 6}));
  // Very many: neither deep recursion nor quadratic time.
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "<s>";
  const auto ids = (*t)->encode(text, Specials::text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->size(), 400'000u);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 1), 0);
}

// Three noncharacters in a row mark a text's inside for pre-tokenizers; a
// client may write them, too.
TEST(Tokenizer, TheInsideMarkInATextIsOrdinaryText) {
  const auto tokenizer = byte_level_tokenizer();
  const std::string mark = "\uFDD0\uFDEF\uFDD1";
  for (const std::string& text :
       {mark, "a" + mark + "b", mark + mark, mark + "<|end|>" + mark}) {
    for (const bool prompt : {false, true}) {
      const auto ids = prompt ? tokenizer->encode_prompt(text)
                              : tokenizer->encode(text, Specials::text);
      ASSERT_TRUE(ids);
      for (const TokenId id : *ids) EXPECT_LT(id, tokenizer->size());
      const auto back = tokenizer->decode(*ids, false);
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(*back, text);
    }
  }
}

TEST(Tokenizer, RemembersPiecesFromManyThreads) {
  const auto t = byte_level_tokenizer();
  const std::string text = "<|user|>a long prompt<|end|>and the state<|end|>";
  const auto expected = *t->encode(text, Specials::parse);
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const auto other = std::to_string(round % 7 + i);
        right[i] +=
            *t->encode_prompt(text) == expected &&
            *t->encode_prompt(other) == *t->encode(other, Specials::parse);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 50));
}

TEST(GgufTokenizer, MergesAndControls) {
  const auto t = tiny(tiny_vocabulary());
  EXPECT_EQ(t->size(), 260);
  EXPECT_EQ(*t->encode("abc<eos>ab", Specials::parse), (Ids{257, 259, 256}));
  EXPECT_EQ(*t->encode("<eos>", Specials::text),
            (Ids{'<', 'e', 'o', 's', '>'}));
  EXPECT_EQ(*t->decode(Ids{257, 259, 256}, true), "abcab");
  EXPECT_EQ(*t->decode(Ids{257, 259, 256}, false), "abc<eos>ab");
}

// Where the splitting shows: digits alone or in threes, words in one.
TEST(GgufTokenizer, EverySplittingIsKnown) {
  for (const char* pre :
       {"smollm", "llama-bpe", "qwen2", "qwen35", "gpt-2", "mpt", "starcoder",
        "refact", "command-r", "falcon", "deepseek-llm", "glm4"}) {
    auto vocabulary = tiny_vocabulary(pre);
    for (const char* digits : {"12", "123", "1234"})
      vocabulary.tokens.push_back(digits);
    vocabulary.merges.insert(vocabulary.merges.end(), {"1 2", "12 3", "123 4"});
    vocabulary.types.resize(vocabulary.tokens.size(), 1);
    const auto t = tiny(vocabulary);
    ASSERT_TRUE(t) << pre;
    const auto ids = *t->encode("1234", Specials::parse);
    const std::string name = pre;
    if (name == "gpt-2" || name == "mpt")
      EXPECT_EQ(ids, (Ids{262})) << pre;
    else if (name == "llama-bpe" || name == "glm4" || name == "falcon")
      EXPECT_EQ(ids, (Ids{261, '4'})) << pre;
    else
      EXPECT_EQ(ids, (Ids{'1', '2', '3', '4'})) << pre;
    EXPECT_EQ(*t->decode(*t->encode("né 世!\r\n", Specials::parse), false),
              "né 世!\r\n")
        << pre;
  }
}

// A word that is a token, though no merges lead to it.
TEST(GgufTokenizer, TakesWordsWholeWhereTheModelsDo) {
  for (const char* pre : {"llama-bpe", "gpt-2"}) {
    auto vocabulary = tiny_vocabulary(pre);
    vocabulary.tokens.push_back("xyz");
    vocabulary.types.push_back(1);
    const bool whole = std::string(pre) == "llama-bpe";
    EXPECT_EQ(*tiny(vocabulary)->encode("xyz", Specials::parse),
              whole ? (Ids{260}) : (Ids{'x', 'y', 'z'}));
  }
}

TEST(GgufTokenizer, ComposesWhereTheModelsDo) {
  const auto decomposed = "e\u0301";
  const auto composed = "\u00e9";
  const auto qwen = tiny(tiny_vocabulary("qwen2"));
  EXPECT_EQ(*qwen->encode(decomposed, Specials::parse),
            *qwen->encode(composed, Specials::parse));
  const auto gpt = tiny(tiny_vocabulary("gpt-2"));
  EXPECT_NE(*gpt->encode(decomposed, Specials::parse),
            *gpt->encode(composed, Specials::parse));
}

TEST(GgufTokenizer, NamesWhatItDoesNotServe) {
  auto vocabulary = tiny_vocabulary("deepseek-coder");
  auto error = refused(vocabulary);
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_NE(error.message.find("deepseek-coder"), std::string::npos);
  vocabulary = tiny_vocabulary();
  vocabulary.model = "bert";
  error = refused(vocabulary);
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_NE(error.message.find("bert"), std::string::npos);
}

TEST(GgufTokenizer, RefusesAVocabularyThatLies) {
  auto few_types = tiny_vocabulary();
  few_types.types.pop_back();
  auto bad_merge = tiny_vocabulary();
  bad_merge.merges.push_back("ab");
  auto unknown_merge = tiny_vocabulary();
  unknown_merge.merges.push_back("x y");
  auto twice = tiny_vocabulary();
  twice.tokens[5] = "ab";
  auto empty = tiny_vocabulary();
  empty.tokens.clear();
  empty.types.clear();
  auto far_bos = tiny_vocabulary();
  far_bos.add_bos = true;
  far_bos.bos = 1 << 20;
  auto not_utf8 = tiny_vocabulary();
  not_utf8.tokens[7] = "\xff";
  for (const auto& vocabulary :
       {few_types, bad_merge, unknown_merge, twice, empty, far_bos, not_utf8}) {
    const auto error = refused(vocabulary);
    EXPECT_EQ(error.kind, ErrorKind::corrupt);
    EXPECT_FALSE(error.message.empty());
  }
}

}  // namespace
}  // namespace reprise
