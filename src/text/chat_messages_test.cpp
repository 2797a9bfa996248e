#include "text/chat_messages.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json prepare(const char* message, ContentForm form = ContentForm::string,
             MissingContent missing = MissingContent::absent) {
  const auto out =
      prepare_messages(Json::array({Json::parse(message)}), form, missing);
  EXPECT_TRUE(out) << out.error().message;
  return out ? (*out)[0] : Json();
}

Error refuse(const char* messages) {
  const auto out = prepare_messages(Json::parse(messages), ContentForm::string,
                                    MissingContent::absent);
  EXPECT_FALSE(out) << messages;
  return out ? Error{} : out.error();
}

TEST(ChatMessages, ContentOfEveryShape) {
  for (const char* message :
       {R"({"role": "user", "content": "ab"})",
        R"({"role": "user", "content": [{"type": "text", "text": "ab"}]})",
        R"({"role": "user", "content": [{"type": "text", "text": "a"},
                                        {"type": "text", "text": "b"}]})",
        R"({"role": "user", "content": ["a", "b"]})"})
    EXPECT_EQ(prepare(message).dump(), R"({"role":"user","content":"ab"})");
  for (const char* message :
       {R"({"role": "user", "content": null})", R"({"role": "user"})",
        R"({"role": "user", "content": []})",
        R"({"role": "user", "content": ""})"})
    EXPECT_EQ(prepare(message).dump(), R"({"role":"user","content":""})");
}

TEST(ChatMessages, PartsForTemplatesThatReadThem) {
  EXPECT_EQ(prepare(R"({"role": "user", "content": "ab"})", ContentForm::parts)
                .dump(),
            R"({"role":"user","content":[{"type":"text","text":"ab"}]})");
}

TEST(ChatMessages, NullKeysAreDropped) {
  EXPECT_EQ(prepare(R"({"role": "user", "name": null, "content": "x", "n": 1})")
                .dump(),
            R"({"role":"user","content":"x","n":1})");
}

TEST(ChatMessages, ContentBesideToolCalls) {
  for (
      const char* message :
      {R"({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]})",
       R"({"role": "assistant", "tool_calls": [{"id": "1"}]})",
       R"({"role": "assistant", "content": [], "tool_calls": [{"id": "1"}]})"}) {
    EXPECT_FALSE(prepare(message).contains("content"));
    EXPECT_EQ(
        prepare(message, ContentForm::string, MissingContent::empty)["content"],
        "");
  }
  EXPECT_EQ(
      prepare(R"({"content": "", "tool_calls": [{"id": "1"}]})")["content"],
      "");
}

Json arguments_of(const std::string& text) {
  Json message = {
      {"role", "assistant"},
      {"tool_calls",
       Json::array({{{"function", {{"name", "f"}, {"arguments", text}}}}})}};
  return prepare(
      message.dump().c_str())["tool_calls"][0]["function"]["arguments"];
}

TEST(ChatMessages, ArgumentsBecomeObjectsInTheirOrder) {
  EXPECT_EQ(arguments_of(R"({"z": 1, "a": [2.0, "x"]})").dump(),
            R"({"z":1,"a":[2.0,"x"]})");
  EXPECT_EQ(arguments_of("").dump(), "{}");
}

TEST(ChatMessages, ArgumentsThatAreNoObjectStayText) {
  std::string deep, wide = "{";
  for (int i = 0; i < 100; ++i) deep += R"({"a":)";
  deep += "1" + std::string(100, '}');
  for (int i = 0; i < 5000; ++i)
    wide += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  wide += "}";
  for (const std::string& text :
       {std::string("{\"a\": "), std::string("[1]"), std::string("nan"), deep,
        wide, std::string(100000, '[')})
    EXPECT_EQ(arguments_of(text), text);
}

TEST(ChatMessages, ReasoningUnderEveryName) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Json given = {
        {"role", "assistant"}, {"content", "x"}, {name, "because"}};
    const Json message = prepare(given.dump().c_str());
    EXPECT_EQ(message["reasoning_content"], "because");
    EXPECT_EQ(message["thinking"], "because");
    EXPECT_EQ(message["reasoning"], "because");
  }
}

TEST(ChatMessages, MediaIsRefusedByName) {
  for (const char* part :
       {R"({"type": "image_url", "image_url": {"url": "x"}})",
        R"({"type": "image"})"}) {
    const auto error =
        refuse((R"([{"role": "user", "content": "x"}, {"role": "user",
             "content": [{"type": "text", "text": "a"}, )" +
                std::string(part) + "]}]")
                   .c_str());
    EXPECT_EQ(error.kind, ErrorKind::unsupported);
    EXPECT_EQ(error.subject, "messages[1].content[1]");
    EXPECT_NE(error.message.find("images are not served"), std::string::npos);
  }
  const auto audio =
      refuse(R"([{"content": [{"type": "input_audio", "input_audio": {}}]}])");
  EXPECT_EQ(audio.kind, ErrorKind::unsupported);
  EXPECT_NE(audio.message.find("input_audio"), std::string::npos);
}

TEST(ChatMessages, WrongShapesAreRefusedWithTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "messages"},
      {R"("x")", "messages"},
      {R"([1])", "messages[0]"},
      {R"([{"content": 5}])", "messages[0].content"},
      {R"([{"content": {"text": "a"}}])", "messages[0].content"},
      {R"([{"content": [5]}])", "messages[0].content[0]"},
      {R"([{"content": [{"text": "a"}]}])", "messages[0].content[0].type"},
      {R"([{"content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"content": [{"type": "text", "text": null}]}])",
       "messages[0].content[0].text"}};
  for (const auto& [messages, place] : cases) {
    const auto error = refuse(messages);
    EXPECT_EQ(error.kind, ErrorKind::invalid) << messages;
    EXPECT_EQ(error.subject, place) << messages;
    EXPECT_EQ(error.message.find(place), 0u) << error.message;
  }
}

}  // namespace
}  // namespace reprise
