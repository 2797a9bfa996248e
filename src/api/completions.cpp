#include "api/completions.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "api/fields.h"

namespace reprise {

namespace {

constexpr char kExpected[] = "a string or an array of token ids, and not empty";

Result<void> read_prompt(const Json& prompt, const std::string& place,
                         int vocabulary, std::vector<CompletionPrompt>& out) {
  if (prompt.empty()) return wrong_value(place, prompt, kExpected);
  if (prompt.is_array()) {
    auto ids = read_token_ids(prompt, place, vocabulary, prompt.size());
    if (!ids) return ids.error();
    out.emplace_back(std::move(*ids));
    return {};
  }
  if (!prompt.is_string() || prompt.get_ref<const std::string&>().empty())
    return wrong_value(place, prompt, kExpected);
  out.emplace_back(prompt.get<std::string>());
  return {};
}

Result<std::vector<CompletionPrompt>> read_prompts(const Json& body, int n,
                                                   int vocabulary) {
  const auto* given = find_field(body, "prompt");
  if (!given) return wrong_value("prompt", nullptr, kExpected);
  std::vector<CompletionPrompt> out;
  const bool several =
      given->is_array() && !given->empty() && !(*given)[0].is_number();
  if (!several) {
    const auto read = read_prompt(*given, "prompt", vocabulary, out);
    if (!read) return read.error();
    return out;
  }
  const auto most = static_cast<std::size_t>(kChoicesMax / n);
  if (given->size() > most)
    return wrong_value(
        "prompt", *given,
        fmt::format("at most {} prompts where n is {}: a reply has at most {} "
                    "choices",
                    most, n, kChoicesMax));
  for (std::size_t i = 0; i < given->size(); ++i) {
    const auto read =
        read_prompt((*given)[i], fmt::format("prompt[{}]", i), vocabulary, out);
    if (!read) return read.error();
  }
  return out;
}

Json choice_of(const ReplyPart& part, bool whole) {
  auto choice = choice_json(part);
  choice["text"] = part.text;
  if (part.show_token_ids && (whole || part.first))
    choice["prompt_token_ids"] = part.prompt_token_ids;
  if (!part.prompt_logprobs.is_null())
    choice["prompt_logprobs"] = part.prompt_logprobs;
  return choice;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const Json& body,
                                                   int vocabulary) {
  CompletionRequest out;
  auto parameters =
      parse_parameters(body, EndpointKind::completions, vocabulary);
  if (!parameters) return parameters.error();
  out.parameters = std::move(*parameters);
  auto prompts = read_prompts(body, out.parameters.n, vocabulary);
  if (!prompts) return prompts.error();
  out.prompts = std::move(*prompts);
  return out;
}

Json completion_reply(const ReplyHead& head, std::span<const ReplyPart> choices,
                      const ReplyEnd& end) {
  auto out = reply_frame(head, kCompletionObject);
  out["choices"] = Json::array();
  for (const auto& part : choices)
    out["choices"].push_back(choice_of(part, true));
  const auto& first = choices.front();
  if (first.show_token_ids) out["prompt_token_ids"] = first.prompt_token_ids;
  out["usage"] = usage_json(end);
  add_end(out, end);
  return out;
}

Json completion_chunk(const ReplyHead& head, const ReplyPart& part) {
  auto out = reply_frame(head, kCompletionObject);
  out["choices"] = Json::array({choice_of(part, false)});
  if (part.show_token_ids && part.first)
    out["prompt_token_ids"] = part.prompt_token_ids;
  return out;
}

}  // namespace reprise
