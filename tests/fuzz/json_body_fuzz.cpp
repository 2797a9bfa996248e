// A request's body of any bytes, through both endpoints' checks.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/json_body.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace reprise;
  const auto body = parse_json_object(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!body) {
    CHECK(!body.error().message.empty());
    return 0;
  }
  constexpr int kVocabulary = 512;
  (void)parse_model_name(*body);
  if (const auto chat = parse_chat_request(*body, kVocabulary)) {
    CHECK(!chat->messages.empty());
    for (const auto& message : chat->messages) CHECK(message.is_object());
  }
  const auto completion = parse_completion_request(*body, kVocabulary);
  if (!completion) return 0;
  for (const auto& prompt : completion->prompts) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
    if (!ids) continue;
    CHECK(!ids->empty());
    for (const TokenId id : *ids) CHECK(id >= 0 && id < kVocabulary, "{}", id);
  }
  return 0;
}
