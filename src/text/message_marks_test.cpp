#include "text/message_marks.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "text/testing_text.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// Roles as special tokens; special tokens apart, a character a token.
constexpr char kPlain[] =
    "{%- for m in messages -%}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}";

Json message(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

// The prompt up to each mark, as text.
std::vector<std::string> parts(const std::string& source, const Json& messages,
                               const Json& tools = nullptr) {
  const auto tokenizer = testing::load_tokenizer("llama/hf/tokenizer.json");
  const auto chat = ChatTemplate::compile(source, Json::object()).value();
  ChatTemplate::ChatOptions options;
  options.tools = tools;
  const auto prompt = chat->encode_chat(messages, options, *tokenizer).value();
  const auto marks =
      message_marks(*chat, messages, options, *tokenizer, prompt);
  EXPECT_LE(marks.size(), kMarksMax);
  std::vector<std::string> out;
  for (const int mark : marks)
    out.push_back(
        tokenizer
            ->decode(std::span(prompt).first(static_cast<std::size_t>(mark)),
                     false)
            .value());
  return out;
}

using Parts = std::vector<std::string>;

TEST(MessageMarks, StandWhereMessagesBegin) {
  EXPECT_EQ(
      parts(kPlain, {message("system", "Be brief."), message("user", "Hi!"),
                     message("assistant", "Yes?"), message("user", "No.")}),
      (Parts{"<|system|>Be brief.<|end|><|user|>",
             "<|system|>Be brief.<|end|><|user|>Hi!<|end|><|assistant|>",
             "<|system|>Be brief.<|end|><|user|>Hi!<|end|><|assistant|>"
             "Yes?<|end|><|user|>"}));
}

TEST(MessageMarks, AreTheSystemPromptsEndAndTheLastFew) {
  Json messages = {message("system", "S")};
  for (int i = 0; i < 9; ++i)
    messages.push_back(message(i % 2 == 0 ? "user" : "assistant", "x"));
  const auto found = parts(kPlain, messages);
  ASSERT_EQ(found.size(), kMarksMax);
  EXPECT_EQ(found[0], "<|system|>S<|end|><|user|>");
  EXPECT_EQ(found[1].size(),
            std::string("<|system|>S<|end|>").size() +
                3 * std::string("<|user|>x<|end|>").size() +
                3 * std::string("<|assistant|>x<|end|>").size() +
                std::string("<|user|>").size());
}

// What a template puts before all messages, tools as a rule, is shared too.
TEST(MessageMarks, ToolsAreAPrefixWithoutASystemPrompt) {
  EXPECT_EQ(parts("{{ tools | tojson }}" + std::string(kPlain),
                  Json::array({message("user", "Hi!")}), Json::array({1})),
            (Parts{"[1]<|user|>"}));
  EXPECT_EQ(parts("{%- for m in messages -%}{{ m['content'] }}{%- endfor -%}",
                  Json::array({message("user", "Hi!")})),
            Parts{})
      << "nothing stands before it";
}

// A template that puts the system prompt into the last message has no place
// where it ends; one that refuses a conversation's beginning tells none.
TEST(MessageMarks, WhatATemplateDoesNotTellIsLeftOut) {
  const Json messages = {message("system", "Be brief."), message("user", "A"),
                         message("assistant", "Z"), message("user", "C")};
  EXPECT_EQ(parts("{%- for m in messages[1:] -%}<|{{ m['role'] }}|>"
                  "{%- if loop.last -%}{{ messages[0].content }}{%- endif -%}"
                  "{{ m['content'] }}{%- endfor -%}",
                  messages),
            (Parts{"<|user|>", "<|user|>A<|assistant|>",
                   "<|user|>A<|assistant|>Z<|user|>Be brief."}));
  EXPECT_EQ(parts("{%- if messages[-1].role != 'user' -%}"
                  "{{ raise_exception('end with the user') }}{%- endif -%}" +
                      std::string(kPlain),
                  messages),
            (Parts{"<|system|>Be brief.<|end|><|user|>",
                   "<|system|>Be brief.<|end|><|user|>A<|end|><|assistant|>Z"
                   "<|end|><|user|>"}));
}

// " a" is one token, " z" are two: a mark behind the blank would be wrong for
// one of them.
TEST(MessageMarks, StandBehindTheRoleAndNotInItsText) {
  constexpr char kBlank[] =
      "{%- for m in messages -%}<|{{ m['role'] }}|>{{ ' ' + m['content'] }}"
      "{%- endfor -%}";
  for (const char* text : {"a", "z", "and", "zoo"})
    EXPECT_EQ(parts(kBlank, Json::array({message("user", text)})),
              Parts{"<|user|>"})
        << text;
}

// Thoughts and calls come before what a message says.
TEST(MessageMarks, AMessageIsLeftAtItsVeryBeginning) {
  Json answer = message("assistant", "B");
  answer["reasoning_content"] = "hm";
  EXPECT_EQ(parts("{%- for m in messages -%}<|{{ m['role'] }}|>"
                  "{%- if m.reasoning_content -%}<think>"
                  "{{ m.reasoning_content }}</think>{%- endif -%}"
                  "{{ m['content'] }}{%- endfor -%}",
                  {message("user", "A"), answer}),
            (Parts{"<|user|>", "<|user|>A<|assistant|>"}));
}

}  // namespace
}  // namespace reprise
