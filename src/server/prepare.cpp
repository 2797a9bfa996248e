#include "server/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "api/completions.h"
#include "api/fields.h"
#include "api/json_body.h"
#include "base/mix.h"
#include "text/message_marks.h"

namespace reprise {

namespace {

using Ids = std::vector<TokenId>;

// A prompt in ids, and what echo shows of it.
struct PromptIds {
  Ids ids;
  std::string text = {};
  bool hidden_bos = false;
  std::vector<int> marks = {};
};

struct Parsed {
  GenerationParameters parameters;
  std::vector<PromptIds> prompts;
  std::optional<PreparedReasoning> reasoning = {};
};

// The error with the parameter that holds the prompt as its subject, unless
// the text ring has named something itself.
Error about(const char* parameter, Error error) {
  if (error.subject.empty()) error.subject = parameter;
  return error;
}

Result<void> check_template(ChatRequest& chat, const ModelServices& model) {
  if (!model.chat_template)
    return Error{
        ErrorKind::unsupported,
        fmt::format("The model '{}' comes without a chat template. Use "
                    "/v1/completions with a prompt.",
                    model.id),
        "messages"};
  if (chat.reasoning_effort.empty()) return {};
  if (!model.chat_template->mentions("reasoning_effort"))
    return Error{ErrorKind::unsupported,
                 fmt::format("`reasoning_effort` is {}: the template of '{}' "
                             "knows no such thing. Leave it out, or send "
                             "\"none\" for a reply without thinking.",
                             describe_value(chat.reasoning_effort), model.id),
                 "reasoning_effort", "unsupported_parameter"};
  chat.template_kwargs["reasoning_effort"] = chat.reasoning_effort;
  return {};
}

// A reply of none leaves the prompt the whole context.
int prompt_tokens_max(const GenerationParameters& parameters,
                      const ModelServices& model) {
  return model.context_tokens - (parameters.max_tokens == 0 ? 0 : 1);
}

ChatTemplate::ChatOptions template_options(const ChatRequest& chat,
                                           bool calls_for_reply,
                                           const ModelServices& model) {
  ChatTemplate::ChatOptions options;
  options.extra = chat.template_kwargs;
  options.add_generation_prompt = calls_for_reply;
  options.tokens_max = prompt_tokens_max(chat.parameters, model);
  return options;
}

Result<Parsed> parse_chat(const Json& body, const ModelServices& model) {
  auto rendered = render_chat(body, true, model);
  if (!rendered) return rendered.error();
  auto& [chat, prompt] = *rendered;
  Parsed out{.parameters = std::move(chat.parameters), .prompts = {}};
  if (const auto& marks = model.chat_template->reasoning_marks())
    out.reasoning = {*marks, reply_start(*marks, prompt.text),
                     chat.reasoning_in_content};
  PromptIds ids{std::move(prompt.ids)};
  if (model.keeps_snapshots && out.parameters.cache_prompt)
    ids.marks = message_marks(*model.chat_template, chat.messages,
                              template_options(chat, true, model),
                              *model.tokenizer, ids.ids);
  out.prompts.push_back(std::move(ids));
  return out;
}

Result<PromptIds> read_prompt(CompletionPrompt prompt, const std::string& place,
                              const GenerationParameters& parameters,
                              const ModelServices& model) {
  PromptIds out;
  if (auto* ids = std::get_if<Ids>(&prompt)) {
    out.ids = std::move(*ids);
    if (!parameters.echo) return out;
    for (const TokenId id : out.ids)
      out.text += model.tokenizer->token_bytes(id);
    return out;
  }
  // Who sends a raw prompt writes the special tokens into it, as with
  // Hugging Face and vLLM.
  auto& text = std::get<std::string>(prompt);
  auto ids = model.tokenizer->encode_prompt(
      text, prompt_tokens_max(parameters, model));
  if (!ids) return about(place.c_str(), ids.error());
  out.ids = std::move(*ids);
  const auto before = out.ids.size();
  model.tokenizer->begin_prompt(out.ids);
  out.hidden_bos = out.ids.size() > before;
  if (parameters.echo) out.text = std::move(text);
  return out;
}

Result<Parsed> parse_completion(const Json& body, const ModelServices& model) {
  auto completion = parse_completion_request(body, model.vocabulary);
  if (!completion) return completion.error();
  Parsed out{.parameters = std::move(completion->parameters), .prompts = {}};
  const bool several = completion->prompts.size() > 1;
  for (std::size_t i = 0; i < completion->prompts.size(); ++i) {
    auto prompt = read_prompt(std::move(completion->prompts[i]),
                              several ? fmt::format("prompt[{}]", i) : "prompt",
                              out.parameters, model);
    if (!prompt) return prompt.error();
    out.prompts.push_back(std::move(*prompt));
  }
  return out;
}

Result<void> check_length(const Ids& prompt, const std::string& parameter,
                          int tokens_max, int context_tokens) {
  if (prompt.empty())
    return Error{
        ErrorKind::invalid,
        fmt::format("`{}` has no tokens: there is nothing to go on from.",
                    parameter),
        parameter};
  if (prompt.size() <= static_cast<std::size_t>(tokens_max)) return {};
  return Error{
      ErrorKind::invalid,
      fmt::format(
          "The prompt has {} tokens, and the context holds {} for prompt and "
          "reply. Shorten `{}` to at most {} tokens.",
          prompt.size(), context_tokens, parameter, tokens_max),
      parameter, "context_length_exceeded"};
}

// The words' tokens get their bias; ids that the client named keep theirs.
Result<std::vector<TokenBias>> all_biases(
    const GenerationParameters& parameters, const Tokenizer& tokenizer) {
  std::vector<TokenBias> out;
  for (const auto& [text, bias] : parameters.text_bias) {
    const auto ids = tokenizer.encode(text, Tokenizer::Specials::text);
    if (!ids) return about("logit_bias", ids.error());
    for (const TokenId id : *ids) set_bias(out, {id, bias});
  }
  for (const auto& bias : parameters.sampling.logit_bias) set_bias(out, bias);
  return out;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

// What all prompts of the reply have in common; the seed drawn.
Result<Request> make_request(const GenerationParameters& parameters,
                             const ModelServices& model) {
  Request request;
  request.sampling = parameters.sampling;
  auto biases = all_biases(parameters, *model.tokenizer);
  if (!biases) return biases.error();
  request.sampling.logit_bias = std::move(*biases);
  // What the tokenizer does not know, no text can show.
  if (model.tokenizer->size() < model.vocabulary)
    request.sampling.vocabulary = model.tokenizer->size();
  if (!parameters.seed) request.sampling.seed = random_seed();
  if (!parameters.ignore_eos) request.stop_tokens = model.eos;
  for (const TokenId id : parameters.stop_token_ids)
    request.stop_tokens.push_back(id);
  request.cache_prompt = parameters.cache_prompt;
  request.logprobs = parameters.logprobs;
  request.prompt_logprobs = parameters.prompt_logprobs;
  if (parameters.echo && parameters.logprobs)
    request.prompt_logprobs =
        std::max(*parameters.logprobs, parameters.prompt_logprobs.value_or(0));
  return request;
}

// Of choice 1 and on: the generator's output number `choice`, so that seeds of
// neighbours have nothing in common.
std::uint64_t choice_seed(std::uint64_t seed, int choice) {
  return mix64(seed + kMixStep * static_cast<unsigned>(choice - 1));
}

}  // namespace

Result<void> check_model(const Json& body, const ModelServices& model) {
  const auto name = parse_model_name(body);
  if (!name) return name.error();
  if (name->empty() || *name == model.id) return {};
  return Error{ErrorKind::not_found,
               fmt::format("The model {} does not exist here: '{}' is loaded.",
                           describe_value(*name), model.id),
               "model", "model_not_found"};
}

Result<RenderedRequest> render_chat(const Json& body, bool calls_for_reply,
                                    const ModelServices& model) {
  auto chat = parse_chat_request(body, model.vocabulary);
  if (!chat) return chat.error();
  const auto allowed = check_template(*chat, model);
  if (!allowed) return allowed.error();
  auto prompt = model.chat_template->render_chat(
      chat->messages, template_options(*chat, calls_for_reply, model),
      *model.tokenizer);
  if (!prompt) return about("messages", prompt.error());
  return RenderedRequest{std::move(*chat), std::move(*prompt)};
}

Result<PreparedReply> prepare(Endpoint endpoint, std::string_view body,
                              const ModelServices& model) {
  const auto json = parse_json_object(body);
  if (!json) return json.error();
  const auto known = check_model(*json, model);
  if (!known) return known.error();
  const bool chat = endpoint == Endpoint::chat;
  auto parsed =
      chat ? parse_chat(*json, model) : parse_completion(*json, model);
  if (!parsed) return parsed.error();

  PreparedReply out{.parameters = std::move(parsed->parameters),
                    .prompts = {},
                    .reasoning = std::move(parsed->reasoning)};
  const auto& parameters = out.parameters;
  auto request = make_request(parameters, model);
  if (!request) return request.error();
  for (auto& [ids, text, hidden_bos, marks] : parsed->prompts) {
    std::string place = chat ? "messages" : "prompt";
    if (parsed->prompts.size() > 1)
      place += fmt::format("[{}]", out.prompts.size());
    const auto fits = check_length(
        ids, place, prompt_tokens_max(parameters, model), model.context_tokens);
    if (!fits) return fits.error();
    const int room = model.context_tokens - static_cast<int>(ids.size());
    auto& prompt = out.prompts.emplace_back(
        PreparedPrompt{*request, std::move(text), hidden_bos});
    prompt.request.prompt = std::move(ids);
    prompt.request.marks = std::move(marks);
    prompt.request.max_tokens =
        std::min(parameters.max_tokens.value_or(room), room);
    prompt.request.min_tokens =
        std::min(parameters.min_tokens, prompt.request.max_tokens);
  }
  return out;
}

Request request_of(const PreparedReply& reply, int choice) {
  Request request = reply.prompt_of(choice).request;
  const int which = choice % reply.parameters.n;
  if (which > 0)
    request.sampling.seed = choice_seed(request.sampling.seed, which);
  return request;
}

}  // namespace reprise
