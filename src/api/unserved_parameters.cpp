#include "api/unserved_parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/fields.h"

namespace reprise {

namespace {

// Parameters that clients of OpenAI, llama.cpp and vLLM send and that nothing
// here serves yet, each with the values that change nothing (null never does).
const Json& everywhere() {
  static const Json table = Json::parse(R"({
    "add_generation_prompt": [true],
    "allowed_token_ids": [],
    "audio": [],
    "bad_words": [[]],
    "chat_template": [""],
    "continue_final_message": [false],
    "documents": [[]],
    "dry_multiplier": [0],
    "dynatemp_range": [0],
    "function_call": ["none", "auto"],
    "functions": [[]],
    "grammar": [""],
    "guided_choice": [],
    "guided_grammar": [],
    "guided_json": [],
    "guided_regex": [],
    "input_prefix": [""],
    "input_suffix": [""],
    "json_schema": [{}],
    "length_penalty": [1],
    "lora": [[]],
    "mirostat": [0],
    "modalities": [["text"]],
    "prediction": [],
    "prompt_embeds": [],
    "response_format": [{"type": "text"}],
    "samplers": [],
    "skip_special_tokens": [true],
    "structured_outputs": [],
    "suffix": [""],
    "tfs_z": [1],
    "tool_choice": ["none", "auto"],
    "tools": [[]],
    "top_n_sigma": [-1, 0],
    "truncate_prompt_tokens": [],
    "typical_p": [1],
    "use_beam_search": [false],
    "verbosity": ["medium"],
    "web_search_options": [],
    "xtc_probability": [0]
  })");
  return table;
}

// What only the other endpoint has.
const Json& in_chats() {
  static const Json table = Json::parse(R"({
    "echo": [false],
    "n_probs": [0]
  })");
  return table;
}
const Json& in_completions() {
  static const Json table = Json::parse(R"({
    "reasoning_effort": ["none"],
    "top_logprobs": [0]
  })");
  return table;
}

Result<void> refuse(const Json& body, const Json& table) {
  for (const auto& [name, harmless] : table.items()) {
    const auto* value = find_field(body, name.c_str());
    if (!value) continue;
    if (std::find(harmless.begin(), harmless.end(), *value) != harmless.end())
      continue;
    return Error{
        ErrorKind::unsupported,
        fmt::format(
            "`{}` is not served by this endpoint yet, and {} would change the "
            "reply. Leave it out{}{}.",
            name, describe_value(*value), harmless.empty() ? "" : " or send ",
            harmless.empty() ? "" : harmless[0].dump()),
        name, "unsupported_parameter"};
  }
  return {};
}

}  // namespace

Result<void> refuse_unserved(const Json& body, EndpointKind kind) {
  const auto refused = refuse(body, everywhere());
  if (!refused) return refused;
  return refuse(body,
                kind == EndpointKind::chat ? in_chats() : in_completions());
}

}  // namespace reprise
