#include "text/special_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// U+FDD2 ... U+FDEF are noncharacters; the two before them are the crate's.
constexpr int kMarkFirst = 0xFDD2;
constexpr int kMarkLast = 0xFDEF;

std::string utf8_of(int code) {
  return {static_cast<char>(0xE0 | (code >> 12)),
          static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (text[size] & 0xC0) == 0x80) ++size;
  return size;
}

bool marks_thinking(std::string_view token) {
  std::string lower(token);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return lower.find("think") != std::string::npos ||
         lower.find("thought") != std::string::npos;
}

bool any_string(const Json& value, auto&& test) {
  if (value.is_string()) return test(value.get_ref<const std::string&>());
  if (value.is_array())
    return std::any_of(value.begin(), value.end(), [&](const Json& item) {
      return any_string(item, test);
    });
  if (!value.is_object()) return false;
  for (const auto& [key, item] : value.items())
    if (test(key) || any_string(item, test)) return true;
  return false;
}

std::string without(std::string_view text, std::string_view what) {
  std::string out;
  out.reserve(text.size());
  for (auto at = text.find(what); at != std::string_view::npos;
       at = text.find(what)) {
    out += text.substr(0, at);
    text.remove_prefix(at + what.size());
  }
  out += text;
  return out;
}

}  // namespace

SpecialText::SpecialText(const std::vector<std::string>& tokens) : nodes_(1) {
  for (const std::string& token : tokens) {
    if (token.empty() || character_size(token) == token.size()) continue;
    int at = 0;
    for (unsigned char c : token) {
      auto& children = nodes_[at].children;
      const auto found =
          std::find_if(children.begin(), children.end(),
                       [c](const auto& child) { return child.first == c; });
      if (found != children.end()) {
        at = found->second;
        continue;
      }
      const int next = static_cast<int>(nodes_.size());
      children.emplace_back(c, next);
      nodes_.emplace_back();
      at = next;
    }
    nodes_[at].ends = true;
    nodes_[at].thinking = marks_thinking(token);
  }
}

bool SpecialText::begins(std::string_view text, Thinking thinking) const {
  const Node* node = &nodes_[0];
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    const auto found =
        std::find_if(node->children.begin(), node->children.end(),
                     [c](const auto& child) { return child.first == c; });
    if (found == node->children.end()) return false;
    node = &nodes_[found->second];
    const bool counts = !node->thinking || thinking == Thinking::broken;
    if (node->ends && counts) return true;
  }
  return false;
}

bool SpecialText::appears_in(std::string_view text) const {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins(text.substr(i), Thinking::broken)) return true;
  return false;
}

std::string SpecialText::broken(std::string_view text, std::string_view mark,
                                Thinking thinking) const {
  std::string out;
  out.reserve(text.size());
  // Also inside a match: tokens may overlap or hold each other.
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const std::size_t size = character_size(rest);
    out += rest.substr(0, size);
    if (begins(rest, thinking)) out += mark;
    i += size;
  }
  return out;
}

Result<SpecialBreaker> SpecialBreaker::make(
    const SpecialText& specials, const std::vector<const Json*>& inputs) {
  const auto any = [&](auto&& test) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Json* input) {
      return any_string(*input, test);
    });
  };
  SpecialBreaker breaker;
  breaker.specials_ = &specials;
  if (!any([&](const std::string& s) { return specials.appears_in(s); }))
    return breaker;
  for (int code = kMarkFirst; code <= kMarkLast; ++code) {
    const std::string mark = utf8_of(code);
    const std::string digits = fmt::format("{:04x}", code);
    const bool taken = any([&](const std::string& s) {
      return s.find(mark) != std::string::npos ||
             s.find(digits) != std::string::npos;
    });
    if (taken) continue;
    breaker.mark_ = mark;
    breaker.forms_ = {mark, "\\u" + digits, "\\u{" + digits + "}"};
    return breaker;
  }
  return Error{
      ErrorKind::invalid,
      "the messages spell special tokens and use every noncharacter from "
      "U+FDD2 to U+FDEF; leave one of them out"};
}

void SpecialBreaker::apply(Json& value, SpecialText::Thinking thinking) const {
  if (mark_.empty()) return;
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    text = specials_->broken(text, mark_, thinking);
  } else if (value.is_array()) {
    for (Json& item : value) apply(item, thinking);
  } else if (value.is_object()) {
    // Appended by hand: Json's own insertion looks at every key before. Two
    // keys never become one.
    Json::object_t out;
    for (auto& [key, item] : value.get_ref<Json::object_t&>()) {
      apply(item, thinking);
      out.emplace_back(specials_->broken(key, mark_, thinking),
                       std::move(item));
    }
    value = std::move(out);
  }
}

void SpecialBreaker::apply(Json& value) const {
  apply(value, SpecialText::Thinking::broken);
}

void SpecialBreaker::apply_messages(Json& messages) const {
  for (Json& message : messages) {
    const auto role = message.find("role");
    const bool assistant = role != message.end() && *role == "assistant";
    apply(message, assistant ? SpecialText::Thinking::whole
                             : SpecialText::Thinking::broken);
  }
}

std::string SpecialBreaker::clean(std::string_view text) const {
  std::string out(text);
  for (const std::string& form : forms_) out = without(out, form);
  return out;
}

}  // namespace reprise
