// A client's body of any bytes, through a fixed chat template to token ids.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/chat_completions.h"
#include "api/json_body.h"
#include "base/check.h"
#include "text/chat_template.h"

namespace {

using namespace reprise;

constexpr char kTemplate[] =
    "{%- for m in messages -%}<|{{ m['role'] }}|>"
    "{%- if m.content is string -%}{{ m.content | trim }}"
    "{%- elif m.content -%}{%- for p in m.content -%}{{ p.text }}"
    "{%- endfor -%}{%- endif -%}"
    "{%- for c in m.tool_calls or [] -%}{{ c | tojson }}"
    "{{ c.function.arguments }}{%- endfor -%}<|end|>{%- endfor -%}"
    "{{ extra }}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}";

template <typename T>
T opened(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().message);
  return *std::move(result);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const auto tokenizer = opened(Tokenizer::from_file(
      REPRISE_SOURCE_DIR "/tests/fixtures/llama/hf/tokenizer.json"));
  static const auto chat_template =
      opened(ChatTemplate::compile(kTemplate, nlohmann::json::object()));
  const auto body = parse_json_object(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!body) return 0;
  const auto chat = parse_chat_request(*body, tokenizer->size());
  if (!chat) return 0;
  ChatTemplate::ChatOptions options;
  options.extra = chat->template_kwargs;
  const auto ids =
      chat_template->encode_chat(chat->messages, options, *tokenizer);
  if (!ids) {
    CHECK(!ids.error().message.empty());
    return 0;
  }
  for (const TokenId id : *ids)
    CHECK(id >= 0 && id < tokenizer->size(), "{}", id);
  return 0;
}
