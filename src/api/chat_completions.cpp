#include "api/chat_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/fields.h"

namespace reprise {

namespace {

// OpenAI's part types that carry something other than text.
struct PartKind {
  const char* type;
  const char* what;
};
constexpr PartKind kMediaParts[] = {
    {"image_url", "Images"},  {"input_image", "Images"}, {"image", "Images"},
    {"input_audio", "Audio"}, {"video_url", "Videos"},   {"file", "Files"}};

Result<void> check_part(const Json& part, const std::string& place) {
  if (!part.is_object())
    return wrong_value(place, part,
                       "an object such as {\"type\": \"text\", \"text\": ...}");
  const auto* type = find_field(part, "type");
  if (!type || !type->is_string())
    return wrong_value(place + ".type", type ? *type : Json(nullptr),
                       "\"text\"");
  for (const auto& kind : kMediaParts)
    if (*type == kind.type)
      return Error{
          ErrorKind::unsupported,
          fmt::format(
              "`{}` is \"{}\": {} are not served by this model. Send text "
              "parts only.",
              place + ".type", kind.type, kind.what),
          place, "unsupported_content"};
  if (*type != "text") return wrong_value(place + ".type", *type, "\"text\"");
  const auto* text = find_field(part, "text");
  if (!text || !text->is_string())
    return wrong_value(place + ".text", text ? *text : Json(nullptr),
                       "a string");
  return {};
}

Result<void> check_content(const Json& content, const std::string& place) {
  if (content.is_null() || content.is_string()) return {};
  if (!content.is_array())
    return wrong_value(place, content,
                       "a string, null or an array of text parts");
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto checked =
        check_part(content[i], fmt::format("{}[{}]", place, i));
    if (!checked) return checked;
  }
  return {};
}

// Calls in the history are the template's to show; their shape is checked here
// so that a template never meets a surprise.
Result<void> check_tool_calls(const Json& calls, const std::string& place) {
  if (!calls.is_array())
    return wrong_value(place, calls, "an array of objects");
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!calls[i].is_object())
      return wrong_value(fmt::format("{}[{}]", place, i), calls[i],
                         "an object");
  return {};
}

// Appends the message to `out_messages`.
Result<void> read_message(const Json& message, const std::string& place,
                          Json& out_messages) {
  if (!message.is_object())
    return wrong_value(place, message, "an object with a role and a content");
  static const std::vector<std::string> kRoles = {"system", "developer", "user",
                                                  "assistant", "tool"};
  const auto* role = find_field(message, "role");
  const auto is_role = [&](const std::string& name) { return *role == name; };
  if (!role || std::none_of(kRoles.begin(), kRoles.end(), is_role))
    return wrong_value(place + ".role", role ? *role : Json(nullptr),
                       "one of system, developer, user, assistant, tool");
  Json out = message;
  // No template of a model of today knows the newer word for it.
  if (*role == "developer") out["role"] = "system";
  if (const auto* content = find_field(message, "content")) {
    const auto checked = check_content(*content, place + ".content");
    if (!checked) return checked.error();
  }
  if (const auto* calls = find_field(message, "tool_calls")) {
    const auto checked = check_tool_calls(*calls, place + ".tool_calls");
    if (!checked) return checked.error();
  }
  out_messages.push_back(std::move(out));
  return {};
}

Result<void> read_messages(const Json& body, Json& out) {
  const auto* messages = find_field(body, "messages");
  if (!messages || !messages->is_array() || messages->empty())
    return wrong_value("messages", messages ? *messages : Json(nullptr),
                       "an array of at least one message");
  out = Json::array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const auto read =
        read_message((*messages)[i], fmt::format("messages[{}]", i), out);
    if (!read) return read;
  }
  return {};
}

// Both names that clients look for.
void add_reasoning(Json& message, const std::string& reasoning) {
  if (reasoning.empty()) return;
  message["reasoning_content"] = reasoning;
  message["reasoning"] = reasoning;
}

// Sets `enable_thinking` as a template argument; `name` is where the client
// said so.
Result<void> set_thinking(Json& kwargs, bool thinks, const char* name,
                          const Json& said) {
  const auto* before = find_field(kwargs, "enable_thinking");
  if (before && *before != thinks)
    return Error{
        ErrorKind::invalid,
        fmt::format("`{}` is {}, and `enable_thinking` is {}: they "
                    "contradict each other, send one of them.",
                    name, describe_value(said), describe_value(*before)),
        name};
  kwargs["enable_thinking"] = thinks;
  return {};
}

Result<void> read_effort(const Json& body, ChatRequest& out) {
  const auto* effort = find_field(body, "reasoning_effort");
  if (!effort) return {};
  static const std::vector<std::string> kEfforts = {
      "none", "minimal", "low", "medium", "high", "xhigh"};
  if (std::none_of(kEfforts.begin(), kEfforts.end(),
                   [&](const auto& known) { return *effort == known; }))
    return wrong_value("reasoning_effort", *effort,
                       "one of none, minimal, low, medium, high, xhigh");
  if (*effort == "none")
    return set_thinking(out.template_kwargs, false, "reasoning_effort",
                        *effort);
  out.reasoning_effort = effort->get<std::string>();
  return {};
}

// What the client says to the template, and about thinking.
Result<void> read_template_kwargs(const Json& body, ChatRequest& out) {
  if (const auto* kwargs = find_field(body, "chat_template_kwargs")) {
    if (!kwargs->is_object())
      return wrong_value("chat_template_kwargs", *kwargs, "an object");
    out.template_kwargs = *kwargs;
  }
  if (const auto* thinks = find_field(body, "enable_thinking")) {
    if (!thinks->is_boolean())
      return wrong_value("enable_thinking", *thinks, "true or false");
    const auto set = set_thinking(out.template_kwargs, thinks->get<bool>(),
                                  "enable_thinking", *thinks);
    if (!set) return set;
  }
  if (const auto* format = find_field(body, "reasoning_format")) {
    if (*format != "none" && *format != "auto" && *format != "deepseek")
      return wrong_value("reasoning_format", *format,
                         "one of none, auto, deepseek");
    out.reasoning_in_content = *format == "none";
  }
  return read_effort(body, out);
}

}  // namespace

Result<ChatRequest> parse_chat_request(const Json& body, int vocabulary) {
  ChatRequest out;
  const auto messages = read_messages(body, out.messages);
  if (!messages) return messages.error();
  const auto kwargs = read_template_kwargs(body, out);
  if (!kwargs) return kwargs.error();
  auto parameters = parse_parameters(body, EndpointKind::chat, vocabulary);
  if (!parameters) return parameters.error();
  out.parameters = std::move(*parameters);
  return out;
}

Json chat_reply(const ReplyHead& head, std::span<const ReplyPart> choices,
                const ReplyEnd& end) {
  auto out = reply_frame(head, "chat.completion");
  out["choices"] = Json::array();
  for (const auto& part : choices) {
    auto choice = choice_json(part);
    Json message = {{"role", "assistant"}, {"content", part.text}};
    if (part.content_may_wait && part.text.empty())
      message["content"] = nullptr;
    add_reasoning(message, part.reasoning);
    choice["message"] = std::move(message);
    out["choices"].push_back(std::move(choice));
  }
  const auto& first = choices.front();
  if (first.show_token_ids) out["prompt_token_ids"] = first.prompt_token_ids;
  if (!first.prompt_logprobs.is_null())
    out["prompt_logprobs"] = first.prompt_logprobs;
  out["usage"] = usage_json(end);
  add_end(out, end);
  return out;
}

Json chat_chunk(const ReplyHead& head, const ReplyPart& part) {
  auto out = reply_frame(head, kChatChunkObject);
  auto choice = choice_json(part);
  choice["delta"] = Json::object();
  auto& delta = choice["delta"];
  if (part.first) delta["role"] = "assistant";
  const bool opens = part.first && !part.content_may_wait;
  if (opens || !part.text.empty()) delta["content"] = part.text;
  add_reasoning(delta, part.reasoning);
  out["choices"] = Json::array({std::move(choice)});
  if (part.show_token_ids && part.first)
    out["prompt_token_ids"] = part.prompt_token_ids;
  return out;
}

}  // namespace reprise
