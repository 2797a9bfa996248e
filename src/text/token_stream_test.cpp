#include "text/token_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "text/testing_text.h"

namespace reprise {
namespace {

using Ids = std::vector<TokenId>;

// 512 byte-level tokens, with roles and thinking marks.
std::shared_ptr<const Tokenizer> byte_level_tokenizer() {
  return testing::load_tokenizer("llama/hf/tokenizer.json");
}

bool whole_characters(const std::string& text) {
  // A piece neither begins inside a character nor ends inside one.
  std::size_t i = 0;
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t size = c < 0x80   ? 1
                             : c < 0xC0 ? 0
                             : c < 0xE0 ? 2
                             : c < 0xF0 ? 3
                                        : 4;
    if (size == 0 || i + size > text.size()) return false;
    for (std::size_t k = 1; k < size; ++k)
      if ((text[i + k] & 0xC0) != 0x80) return false;
    i += size;
  }
  return true;
}

struct Streamed {
  std::string text;
  std::vector<std::string> pieces;
  bool stopped = false;
};

Streamed stream(std::shared_ptr<const Tokenizer> tokenizer, const Ids& ids,
                std::vector<std::string> stops = {}) {
  TokenStream out(std::move(tokenizer), {.stop_strings = std::move(stops)});
  Streamed result;
  for (TokenId id : ids) {
    result.pieces.push_back(out.push(id));
    EXPECT_TRUE(whole_characters(result.pieces.back()))
        << ::testing::PrintToString(result.pieces.back());
    result.text += result.pieces.back();
  }
  result.text += out.finish();
  result.stopped = out.stopped();
  return result;
}

std::shared_ptr<const Tokenizer> bytes() {
  static const auto tokenizer =
      *Tokenizer::from_gguf(testing::tiny_vocabulary());
  return tokenizer;
}

// Ids of the tiny vocabulary that spell the bytes.
Ids spell(std::string_view text) {
  Ids ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(TokenStream, CharactersSpreadOverTokensComeOutWhole) {
  for (const char* text : {"plain", "é", "e\u0301a\u030a", "世界你好",
                           "👩‍🚀🇩🇪👋🏽", "aé世🙂z", "\u0000x",
                           "한\u1112\u1161\u11ab"}) {
    const Ids ids = spell(text);
    EXPECT_EQ(stream(bytes(), ids).text, text);
    EXPECT_EQ(stream(bytes(), ids).text, *bytes()->decode(ids, true));
  }
  // Given as soon as it is whole, not later.
  const auto pieces = stream(bytes(), spell("世a")).pieces;
  EXPECT_EQ(pieces, (std::vector<std::string>{"", "", "世", "a"}));
}

TEST(TokenStream, JoinedPiecesAreTheDecodedText) {
  for (const char* name :
       {"llama/hf/tokenizer.json", "text/metaspace_tokenizer.json"}) {
    const auto tokenizer = *Tokenizer::from_file(testing::fixture_path(name));
    const auto cases = testing::read_fixture("text/tokenizer_cases.json");
    for (const auto& test : cases.at(name)) {
      const auto ids = test.at("parsed").get<Ids>();
      EXPECT_EQ(stream(tokenizer, ids).text, test.at("shown"));
    }
  }
}

TEST(TokenStream, BrokenBytesBecomeReplacementCharacters) {
  for (const char* text : {"\xff", "a\xe4\xb8", "\xe4\xb8z", "\xf0\x9f\x98",
                           "\xc3\xc3\xa9", "\x80\x80x", "\xe4\xe4\xb8\x96"}) {
    const Ids ids = spell(text);
    EXPECT_EQ(stream(bytes(), ids).text, *bytes()->decode(ids, true)) << text;
  }
  TokenStream out(bytes(), {});
  EXPECT_EQ(out.push(0xE4), "");
  EXPECT_EQ(out.finish(), "\uFFFD");
}

// What never becomes a character is given all the same, and a character that
// follows stays whole.
TEST(TokenStream, EndlessBrokenBytesDoNotPileUp) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\xff\xe4\xb8";
  text += "世\xf0\x9f";
  const Ids ids = spell(text);
  const auto streamed = stream(bytes(), ids);
  EXPECT_EQ(streamed.text, *bytes()->decode(ids, true));
  std::size_t late = 0, waiting = 0;
  for (const std::string& piece : streamed.pieces) {
    waiting = piece.empty() ? waiting + 1 : 0;
    late = std::max(late, waiting);
  }
  EXPECT_LT(late, 20u);
}

TEST(TokenStream, ByteFallbackThatGoesWrongIsNoError) {
  const auto t = testing::metaspace_tokenizer();
  const auto byte = [](int b) { return 3 + b; };  // after <unk>, <s>, </s>
  const Ids ids{byte(0xE4), byte(0xB8),           byte(0x96),
                byte(0xE4), t->token_id("hello"), t->token_id("l")};
  const auto streamed = stream(t, ids);
  EXPECT_EQ(streamed.pieces[2], "世");
  EXPECT_EQ(streamed.text.substr(0, 3), "世");
  EXPECT_EQ(streamed.text.substr(streamed.text.size() - 6), "hellol");
}

TEST(TokenStream, SpecialTokensAreNotShown) {
  const auto t = byte_level_tokenizer();
  const auto ids =
      *t->encode("<|user|>hi<|end|>there<think>", Tokenizer::Specials::parse);
  EXPECT_EQ(stream(t, ids).text, "hithere<think>");
}

TEST(TokenStream, MarksAreShownThoughTheyAreSpecial) {
  const auto t = byte_level_tokenizer();
  const auto ids =
      *t->encode("hi<|user|>x<|end|>y", Tokenizer::Specials::parse);
  TokenStream out(t, {.shown_marks = {"<|user|>thought", "</thought>"}});
  std::string text;
  for (const TokenId id : ids) text += out.push(id);
  EXPECT_EQ(text + out.finish(), "hi<|user|>xy");
}

TEST(TokenStream, AStopStringMayBeShown) {
  TokenStream out(bytes(),
                  {.stop_strings = {"bc", "zz"}, .include_stop = true});
  std::string text;
  for (const TokenId id : spell("abcd")) text += out.push(id);
  EXPECT_EQ(text, "abc");
  EXPECT_TRUE(out.stopped());
  EXPECT_EQ(out.finish(), "");
}

TEST(TokenStream, TheFirstTokensAreNotSearchedForStopStrings) {
  for (const int after : {0, 1, 2, 3}) {
    TokenStream out(bytes(),
                    {.stop_strings = {"b"}, .stops_after_tokens = after});
    std::string text;
    for (const TokenId id : spell("abab")) text += out.push(id);
    EXPECT_EQ(text, after < 2 ? "a" : "aba") << after;
  }
}

TEST(TokenBytes, AreThoseBetweenOtherTokens) {
  const auto t = byte_level_tokenizer();
  for (const std::string text :
       {"hello there", "世界", "👩‍🚀", " x\n", "é"}) {
    std::string joined;
    for (const TokenId id : *t->encode(text, Tokenizer::Specials::text))
      joined += t->token_bytes(id);
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(bytes()->token_bytes(0xE4), "\xe4");
  EXPECT_EQ(bytes()->token_bytes(257), "abc");
  EXPECT_EQ(t->token_bytes(t->token_id("<|user|>")), "<|user|>");
  EXPECT_EQ(t->token_bytes(t->size()), "");
  EXPECT_EQ(t->token_bytes(-1), "");
  const auto m = testing::metaspace_tokenizer();
  EXPECT_EQ(m->token_bytes(3 + 0xE4), "\xe4") << "after <unk>, <s>, </s>";
  EXPECT_EQ(m->token_bytes(m->token_id("\u2581hello")), " hello");
}

TEST(TokenStream, StopStringsOverTokenBorders) {
  EXPECT_EQ(stream(bytes(), spell("one STOP two"), {"STOP"}).text, "one ");
  EXPECT_TRUE(stream(bytes(), spell("one STOP two"), {"STOP"}).stopped);
  EXPECT_EQ(stream(bytes(), spell("ST STO STOX"), {"STOP"}).text,
            "ST STO STOX");
  EXPECT_EQ(stream(bytes(), {257, 'x', 256}, {"bcx"}).text, "a");
  EXPECT_EQ(stream(bytes(), spell("a世界b"), {"世界"}).text, "a");
  EXPECT_EQ(stream(bytes(), spell("a世界b"), {""}).text, "a世界b");
}

TEST(TokenStream, HoldsBackPossibleBeginningsOnly) {
  TokenStream out(bytes(), {.stop_strings = {"ENDE"}});
  std::vector<std::string> pieces;
  for (TokenId id : spell("xENENDx")) pieces.push_back(out.push(id));
  EXPECT_EQ(pieces,
            (std::vector<std::string>{"x", "", "", "EN", "", "", "ENDx"}));
  EXPECT_EQ(out.push('E'), "");
  EXPECT_FALSE(out.stopped());
  EXPECT_EQ(out.finish(), "E");
}

TEST(TokenStream, NothingAfterAStopString) {
  TokenStream out(bytes(), {.stop_strings = {"b"}});
  EXPECT_EQ(out.push('a'), "a");
  EXPECT_EQ(out.push('b'), "");
  EXPECT_TRUE(out.stopped());
  EXPECT_EQ(out.push('c'), "");
  EXPECT_EQ(out.finish(), "");
}

TEST(TokenStream, StopStringInWhatWasHeldBack) {
  TokenStream out(bytes(), {.stop_strings = {"\uFFFD"}});
  EXPECT_EQ(out.push('a'), "a");
  EXPECT_EQ(out.push(0xE4), "");
  EXPECT_EQ(out.finish(), "");
  EXPECT_TRUE(out.stopped());
}

// Published checkpoints pad the model's vocabulary past the tokenizer's.
TEST(TokenStream, PaddingIdsHaveNoText) {
  const auto t = bytes();
  TokenStream out(t, {.stop_strings = {"ab"}});
  EXPECT_EQ(out.push(0xE4), "");
  for (const TokenId padding : {t->size(), t->size() + 282, 1 << 30})
    EXPECT_EQ(out.push(padding), "");
  // What was begun before goes on after.
  EXPECT_EQ(out.push(0xB8), "");
  EXPECT_EQ(out.push(0x96), "世");
  EXPECT_EQ(out.push('a'), "");
  EXPECT_EQ(out.push(t->size()), "");
  EXPECT_EQ(out.push('b'), "");
  EXPECT_TRUE(out.stopped());
}

TEST(TokenStream, ThrowsForWhatIsNoId) {
  TokenStream out(bytes(), {});
  EXPECT_THROW(out.push(-1), std::runtime_error);
  EXPECT_EQ(out.push('a'), "a");
}

}  // namespace
}  // namespace reprise
