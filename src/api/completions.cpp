#include "api/completions.h"

#include <fmt/format.h>

#include "api/fields.h"

namespace reprise {

namespace {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

Result<Prompt> read_ids(const Json& ids, const std::string& place,
                        int vocabulary) {
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Json& id = ids[i];
    const bool fits =
        id.is_number_integer() &&
        (id.is_number_unsigned()
             ? id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary)
             : id.get<std::int64_t>() >= 0 &&
                   id.get<std::int64_t>() < vocabulary);
    if (!fits)
      return wrong_value(
          fmt::format("{}[{}]", place, i), id,
          fmt::format("a token id from 0 to {} (the vocabulary has {})",
                      vocabulary - 1, vocabulary));
    out.push_back(id.get<TokenId>());
  }
  return Prompt(std::move(out));
}

Result<Prompt> read_prompt(const Json& body, int vocabulary) {
  constexpr char kExpected[] =
      "a string or an array of token ids, and not empty";
  const auto* prompt = find_field(body, "prompt");
  if (!prompt) return wrong_value("prompt", nullptr, kExpected);
  std::string place = "prompt";
  if (prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number()) {
    if (prompt->size() > 1)
      return Error{
          ErrorKind::unsupported,
          fmt::format(
              "`prompt` holds {} prompts: one a request is served. Send one "
              "request a prompt.",
              prompt->size()),
          place};
    prompt = &(*prompt)[0];
    place = "prompt[0]";
  }
  if (prompt->empty()) return wrong_value(place, *prompt, kExpected);
  if (prompt->is_array()) return read_ids(*prompt, place, vocabulary);
  if (!prompt->is_string()) return wrong_value(place, *prompt, kExpected);
  if (prompt->get_ref<const std::string&>().empty())
    return wrong_value(place, *prompt, kExpected);
  return Prompt(prompt->get<std::string>());
}

Json completion_json(const ReplyHead& head, const ReplyPart& part) {
  auto out = reply_frame(head, kCompletionObject);
  Json choice = {{"index", 0},
                 {"text", part.text},
                 {"logprobs", nullptr},
                 {"finish_reason", nullptr}};
  if (part.end) choice["finish_reason"] = finish_word(*part.end);
  if (part.show_token_ids) {
    choice["token_ids"] = part.token_ids;
    if (part.first) {
      choice["prompt_token_ids"] = part.prompt_token_ids;
      out["prompt_token_ids"] = part.prompt_token_ids;
    }
  }
  out["choices"] = Json::array({std::move(choice)});
  if (part.end) add_end(out, *part.end);
  return out;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const Json& body,
                                                   int vocabulary) {
  CompletionRequest out;
  auto prompt = read_prompt(body, vocabulary);
  if (!prompt) return prompt.error();
  out.prompt = std::move(*prompt);
  auto parameters = parse_parameters(body);
  if (!parameters) return parameters.error();
  out.parameters = std::move(*parameters);
  return out;
}

Json completion_reply(const ReplyHead& head, const ReplyPart& whole) {
  ReplyPart part = whole;
  part.first = true;
  auto out = completion_json(head, part);
  if (whole.end) out["usage"] = usage_json(*whole.end);
  return out;
}

Json completion_chunk(const ReplyHead& head, const ReplyPart& part) {
  return completion_json(head, part);
}

}  // namespace reprise
