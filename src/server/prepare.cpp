#include "server/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/fields.h"
#include "api/json_body.h"

namespace reprise {

namespace {

using Ids = std::vector<TokenId>;

struct Parsed {
  Ids prompt;
  GenerationParameters parameters;
};

Result<void> check_model(const Json& body, const ModelServices& model) {
  const auto name = parse_model_name(body);
  if (!name) return name.error();
  if (name->empty() || *name == model.id) return {};
  return Error{ErrorKind::not_found,
               fmt::format("The model {} does not exist here: '{}' is loaded.",
                           describe_value(*name), model.id),
               "model", "model_not_found"};
}

// The error with the parameter that holds the prompt as its subject, unless
// the text ring has named something itself.
Error about(const char* parameter, Error error) {
  if (error.subject.empty()) error.subject = parameter;
  return error;
}

Result<Parsed> parse_chat(const Json& body, const ModelServices& model) {
  auto chat = parse_chat_request(body);
  if (!chat) return chat.error();
  if (!model.chat_template)
    return Error{
        ErrorKind::unsupported,
        fmt::format("The model '{}' comes without a chat template. Use "
                    "/v1/completions with a prompt.",
                    model.id),
        "messages"};
  ChatTemplate::ChatOptions options;
  options.extra = std::move(chat->template_kwargs);
  options.tokens_max = model.context_tokens - 1;
  auto ids = model.chat_template->encode_chat(chat->messages, options,
                                              *model.tokenizer);
  if (!ids) return about("messages", ids.error());
  return Parsed{std::move(*ids), std::move(chat->parameters)};
}

Result<Parsed> parse_completion(const Json& body, const ModelServices& model) {
  auto completion = parse_completion_request(body, model.vocabulary);
  if (!completion) return completion.error();
  if (auto* ids = std::get_if<Ids>(&completion->prompt))
    return Parsed{std::move(*ids), std::move(completion->parameters)};
  // Who sends a raw prompt writes the special tokens into it, as with
  // Hugging Face and vLLM.
  auto ids = model.tokenizer->encode_prompt(
      std::get<std::string>(completion->prompt), model.context_tokens - 1);
  if (!ids) return about("prompt", ids.error());
  model.tokenizer->begin_prompt(*ids);
  return Parsed{std::move(*ids), std::move(completion->parameters)};
}

Result<void> check_length(const Ids& prompt, const char* parameter,
                          int context_tokens) {
  if (prompt.empty())
    return Error{
        ErrorKind::invalid,
        fmt::format("`{}` has no tokens: there is nothing to go on from.",
                    parameter),
        parameter};
  if (prompt.size() < static_cast<std::size_t>(context_tokens)) return {};
  return Error{
      ErrorKind::invalid,
      fmt::format(
          "The prompt has {} tokens, and the context holds {} for prompt and "
          "reply. Shorten `{}` to at most {} tokens.",
          prompt.size(), context_tokens, parameter, context_tokens - 1),
      parameter, "context_length_exceeded"};
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

Result<PreparedRequest> prepare(Endpoint endpoint, std::string_view body,
                                const ModelServices& model) {
  const auto json = parse_json_object(body);
  if (!json) return json.error();
  const auto known = check_model(*json, model);
  if (!known) return known.error();
  const bool chat = endpoint == Endpoint::chat;
  auto parsed =
      chat ? parse_chat(*json, model) : parse_completion(*json, model);
  if (!parsed) return parsed.error();
  const auto fits = check_length(parsed->prompt, chat ? "messages" : "prompt",
                                 model.context_tokens);
  if (!fits) return fits.error();

  PreparedRequest out;
  out.parameters = std::move(parsed->parameters);
  const auto& parameters = out.parameters;
  auto& request = out.request;
  const int room =
      model.context_tokens - static_cast<int>(parsed->prompt.size());
  request.prompt = std::move(parsed->prompt);
  request.sampling = parameters.sampling;
  if (!parameters.seed) request.sampling.seed = random_seed();
  request.max_tokens = std::min(parameters.max_tokens.value_or(room), room);
  if (!parameters.ignore_eos) request.stop_tokens = model.eos;
  request.cache_prompt = parameters.cache_prompt;
  return out;
}

}  // namespace reprise
