// A chat template of any bytes, compiled and rendered with a fixed chat.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace reprise;
  using Json = nlohmann::ordered_json;
  static const Json context = Json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."},
                 {"role": "user", "content": [{"type": "text", "text": "a"}]},
                 {"role": "assistant", "content": null, "tool_calls": [
                   {"id": "1", "type": "function", "function":
                    {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]},
                 {"role": "tool", "tool_call_id": "1", "content": "ß\u0000"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "add_generation_prompt": true})");
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto compiled = ChatTemplate::compile(source, {{"bos_token", "<s>"}});
  const auto text = compiled ? (*compiled)->render(context, 0)
                             : Result<std::string>(compiled.error());
  if (!text) CHECK(!text.error().message.empty());
  return 0;
}
