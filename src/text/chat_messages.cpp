#include "text/chat_messages.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// Bounds on the arguments of a tool call, which are JSON inside a string: an
// ordered object looks through all its keys for each new one.
constexpr int kArgumentsDepthMax = 64;
constexpr int kArgumentsKeysMax = 1024;

Error bad(const std::string& place, const std::string& what) {
  return Error{ErrorKind::invalid, place + " " + what, place};
}

Error no_media(const std::string& place, const std::string& type) {
  const bool image = type.find("image") != std::string::npos;
  return Error{
      ErrorKind::unsupported,
      fmt::format(
          "{} is of type '{}': {} are not served by this server, only text",
          place, type, image ? "images" : "such parts"),
      place};
}

Result<std::string> part_text(const Json& part, const std::string& place) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) return bad(place, "must be an object with a type");
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string())
    return bad(place + ".type", "must be a string");
  const auto& name = type->get_ref<const std::string&>();
  if (name != "text" && name != "input_text" && name != "output_text")
    return no_media(place, name);
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string())
    return bad(place + ".text", "must be a string");
  return text->get<std::string>();
}

// Parts are joined with nothing between, as templates that read lists do.
Result<std::string> content_text(const Json& content,
                                 const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    return bad(place,
               fmt::format("must be a string or an array of parts, not {}",
                           content.type_name()));
  std::string joined;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto text = part_text(content[i], fmt::format("{}[{}]", place, i));
    if (!text) return text.error();
    joined += *text;
  }
  return joined;
}

Json in_form(std::string text, ContentForm form) {
  if (form == ContentForm::string) return text;
  return Json::array({{{"type", "text"}, {"text", std::move(text)}}});
}

// The object that the string spells, or the string itself. None at all is an
// empty object: a call without arguments.
Json read_arguments(const std::string& text) {
  if (text.empty()) return Json::object();
  std::vector<int> keys;
  bool too_much = false;
  const auto within_bounds = [&](int depth, Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::object_start) keys.push_back(0);
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && ++keys.back() > kArgumentsKeysMax)
      too_much = true;
    if (depth > kArgumentsDepthMax) too_much = true;
    return !too_much;  // false: the value is not kept, so its cost is bounded
  };
  Json value = Json::parse(text, within_bounds, /*allow_exceptions=*/false);
  if (too_much || !value.is_object()) return text;
  return value;
}

void prepare_tool_calls(Json& calls) {
  if (!calls.is_array()) return;
  for (Json& call : calls) {
    if (!call.is_object()) continue;
    const auto function = call.find("function");
    Json& holder =
        function != call.end() && function->is_object() ? *function : call;
    const auto arguments = holder.find("arguments");
    if (arguments == holder.end()) continue;
    if (arguments->is_null()) *arguments = Json::object();
    if (arguments->is_string())
      *arguments = read_arguments(arguments->get<std::string>());
  }
}

void copy_reasoning(Json& message) {
  for (const char* from : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(from);
    if (found == message.end() || !found->is_string()) continue;
    const std::string text = *found;
    for (const char* to : {"reasoning_content", "thinking", "reasoning"})
      if (!message.contains(to)) message[to] = text;
    return;
  }
}

Result<Json> prepare_message(const Json& given, const std::string& place,
                             ContentForm form, MissingContent missing) {
  if (!given.is_object()) return bad(place, "must be an object");
  // Appended by hand: Json's own insertion looks at every key before.
  Json::object_t kept;
  bool has_content = false;
  for (const auto& [key, value] : given.items()) {
    if (value.is_null()) continue;
    if (key != "content") {
      kept.emplace_back(key, value);
      continue;
    }
    auto text = content_text(value, place + ".content");
    if (!text) return text.error();
    has_content = !value.is_array() || !value.empty();
    kept.emplace_back(key, in_form(*std::move(text), form));
  }
  Json message = std::move(kept);
  const auto calls = message.find("tool_calls");
  const bool calls_tools = calls != message.end() && !calls->empty();
  if (calls != message.end()) prepare_tool_calls(*calls);
  if (!has_content) {
    if (calls_tools && missing == MissingContent::absent)
      message.erase("content");
    else if (!message.contains("content"))
      message["content"] = in_form("", form);
  }
  copy_reasoning(message);
  return {boost::system::in_place_value, std::move(message)};
}

}  // namespace

Result<Json> prepare_messages(const Json& messages, ContentForm form,
                              MissingContent missing) {
  if (!messages.is_array()) return bad("messages", "must be an array");
  Json out = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto message = prepare_message(messages[i], fmt::format("messages[{}]", i),
                                   form, missing);
    if (!message) return message.error();
    out.push_back(*std::move(message));
  }
  return {boost::system::in_place_value, std::move(out)};
}

}  // namespace reprise
