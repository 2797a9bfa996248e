#include "text/message_marks.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "base/limits.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// What no message says.
constexpr char kOther[] = "qxotherzw";

// Tokens of plain text that a template puts between a role and what it says.
constexpr int kHeaderTokensMax = 8;

bool is_system(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && (*role == "system" || *role == "developer");
}

// The first behind the system prompt, then as many of the last as may be.
std::set<std::size_t> marked(const Json& messages) {
  std::size_t first = 0;
  while (first < messages.size() && is_system(messages[first])) ++first;
  std::set<std::size_t> out;
  if (first < messages.size()) out.insert(first);
  for (std::size_t i = messages.size(); i-- > first && out.size() < kMarksMax;)
    out.insert(i);
  return out;
}

// The conversation up to message i, which says something else.
Json with_another(const Json& messages, std::size_t i) {
  Json parted(messages.begin(),
              messages.begin() + static_cast<std::ptrdiff_t>(i + 1));
  parted[i]["content"] = kOther;
  for (const char* key :
       {"tool_calls", "reasoning_content", "reasoning", "thinking"})
    parted[i].erase(key);
  return parted;
}

// Where both part. Not inside a role's text: the end of that may be one token
// with the beginning of what is said, while special tokens stand for
// themselves.
int parting_of(std::span<const TokenId> prompt, std::span<const TokenId> other,
               const Tokenizer& tokenizer) {
  const auto at =
      std::mismatch(prompt.begin(), prompt.end(), other.begin(), other.end());
  const auto parting = static_cast<int>(at.first - prompt.begin());
  for (int i = parting; i > std::max(0, parting - kHeaderTokensMax); --i)
    if (tokenizer.is_special(prompt[static_cast<std::size_t>(i - 1)])) return i;
  return parting;
}

}  // namespace

std::vector<int> message_marks(const ChatTemplate& chat, const Json& messages,
                               const ChatTemplate::ChatOptions& options,
                               const Tokenizer& tokenizer,
                               std::span<const TokenId> prompt) {
  auto parting = options;
  parting.add_generation_prompt = false;
  std::set<int> marks;
  for (const std::size_t i : marked(messages)) {
    const auto other =
        chat.encode_chat(with_another(messages, i), parting, tokenizer);
    if (!other) continue;  // a template may refuse what ends here
    const int parting = parting_of(prompt, *other, tokenizer);
    if (parting > 0 && parting < static_cast<int>(prompt.size()))
      marks.insert(parting);
  }
  return {marks.begin(), marks.end()};
}

}  // namespace reprise
