#include "api/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/fields.h"
#include "api/unserved_parameters.h"

namespace reprise {

namespace {

struct Scope {
  EndpointKind kind;
  int vocabulary;
};

constexpr std::int64_t kIntMax = std::numeric_limits<std::int32_t>::max();

Result<void> read_sampling(const Json& body, const Scope&,
                           GenerationParameters& out) {
  const auto temperature =
      read_number(body, "temperature", 1.0, {.min = 0, .max = 2});
  if (!temperature) return temperature.error();
  out.sampling.temperature = static_cast<float>(*temperature);

  const auto top_p =
      read_number(body, "top_p", 1.0, {.min = 0, .max = 1, .open_min = true});
  if (!top_p) return top_p.error();
  // A double just above 0 must not become a float that is 0.
  out.sampling.top_p =
      std::max(static_cast<float>(*top_p), std::numeric_limits<float>::min());

  const auto min_p = read_number(body, "min_p", 0.0, {.min = 0, .max = 1});
  if (!min_p) return min_p.error();
  out.sampling.min_p = static_cast<float>(*min_p);

  // -1 (Hugging Face) and 0 (llama.cpp) both mean: keep all.
  const auto top_k = read_integer(body, "top_k", {.min = -1, .max = kIntMax});
  if (!top_k) return top_k.error();
  out.sampling.top_k =
      static_cast<int>(std::max<std::int64_t>(top_k->value_or(0), 0));
  return {};
}

Result<void> read_penalties(const Json& body, const Scope&,
                            GenerationParameters& out) {
  auto& sampling = out.sampling;
  const NumberRange factor{.min = 0, .max = 100, .open_min = true};
  const auto penalty = read_number(body, "repetition_penalty", 1.0, factor);
  if (!penalty) return penalty.error();
  const auto same = read_number(body, "repeat_penalty", *penalty, factor);
  if (!same) return same.error();
  if (find_field(body, "repetition_penalty") && *penalty != *same)
    return two_values("repetition_penalty", *penalty, "repeat_penalty", *same);
  sampling.repetition_penalty =
      std::max(static_cast<float>(*same), std::numeric_limits<float>::min());

  const auto window =
      read_integer(body, "repeat_last_n", {.min = -1, .max = kIntMax});
  if (!window) return window.error();
  sampling.repetition_window = static_cast<int>(window->value_or(-1));

  const NumberRange added{.min = -2, .max = 2};
  const auto presence = read_number(body, "presence_penalty", 0.0, added);
  if (!presence) return presence.error();
  sampling.presence_penalty = static_cast<float>(*presence);
  const auto frequency = read_number(body, "frequency_penalty", 0.0, added);
  if (!frequency) return frequency.error();
  sampling.frequency_penalty = static_cast<float>(*frequency);
  return {};
}

Result<void> read_bias(const Json& body, const Scope& scope,
                       GenerationParameters& out) {
  auto bias = read_logit_bias(body, scope.vocabulary);
  if (!bias) return bias.error();
  out.sampling.logit_bias = std::move(bias->tokens);
  out.text_bias = std::move(bias->texts);
  return {};
}

Result<void> read_choices(const Json& body, const Scope&,
                          GenerationParameters& out) {
  const IntegerRange range{.min = 1, .max = kChoicesMax};
  const auto n = read_integer(body, "n", range);
  if (!n) return n.error();
  out.n = static_cast<int>(n->value_or(1));
  const auto best_of = read_integer(body, "best_of", range);
  if (!best_of) return best_of.error();
  if (best_of->value_or(out.n) != out.n)
    return Error{ErrorKind::unsupported,
                 fmt::format("`best_of` is {} and `n` is {}: all choices are "
                             "returned, so they must be equal.",
                             **best_of, out.n),
                 "best_of", "unsupported_parameter"};
  return {};
}

// Any integer of 64 bits, signed or not: -1 is a seed like any other.
Result<void> read_seed(const Json& body, const Scope&,
                       GenerationParameters& out) {
  const auto* seed = find_field(body, "seed");
  if (!seed) return {};
  if (!seed->is_number_integer())
    return wrong_value(
        "seed", *seed,
        "an integer from -9223372036854775808 to 18446744073709551615");
  out.seed = seed->is_number_unsigned()
                 ? seed->get<std::uint64_t>()
                 : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  out.sampling.seed = *out.seed;
  return {};
}

Result<void> read_lengths(const Json& body, const Scope& scope,
                          GenerationParameters& out) {
  // Only a completion may have none: its prompt's log-probabilities are of use.
  const int least = scope.kind == EndpointKind::chat ? 1 : 0;
  const auto most = read_integer(body, {"max_tokens", "max_completion_tokens"},
                                 {.min = least, .max = kIntMax});
  if (!most) return most.error();
  const auto predict =
      read_integer(body, "n_predict", {.min = -1, .max = kIntMax});
  if (!predict) return predict.error();
  auto max_tokens = *most;
  if (*predict && **predict == 0 && least > 0)
    return wrong_value("n_predict", **predict, "-1 or at least 1");
  if (*predict && **predict >= 0) {
    if (max_tokens && *max_tokens != **predict)
      return two_values("max_tokens", *max_tokens, "n_predict", **predict);
    max_tokens = **predict;
  }
  if (max_tokens) out.max_tokens = static_cast<int>(*max_tokens);

  const auto min_tokens =
      read_integer(body, "min_tokens", {.min = 0, .max = kIntMax});
  if (!min_tokens) return min_tokens.error();
  out.min_tokens = static_cast<int>(min_tokens->value_or(0));
  if (max_tokens && out.min_tokens > *max_tokens)
    return wrong_value(
        "min_tokens", out.min_tokens,
        fmt::format("at most max_tokens, which is {}", *max_tokens));
  return {};
}

Result<void> read_stop_tokens(const Json& body, const Scope& scope,
                              GenerationParameters& out) {
  const auto* given = find_field(body, "stop_token_ids");
  if (!given) return {};
  auto ids = read_token_ids(*given, "stop_token_ids", scope.vocabulary,
                            kStopTokensMax);
  if (!ids) return ids.error();
  out.stop_token_ids = std::move(*ids);
  return {};
}

Result<void> read_stop(const Json& body, const Scope&,
                       GenerationParameters& out) {
  const auto* stop = find_field(body, "stop");
  if (!stop) return {};
  const auto expected = fmt::format(
      "a string or an array of at most {} strings, each of 1 to {} bytes",
      kStopStringsMax, kStopBytesMax);
  if (stop->is_array() && stop->size() > kStopStringsMax)
    return wrong_value("stop", *stop, expected);
  const Json strings = stop->is_array() ? *stop : Json::array({*stop});
  for (const auto& entry : strings) {
    if (!entry.is_string()) return wrong_value("stop", entry, expected);
    const auto& text = entry.get_ref<const std::string&>();
    if (text.empty() || text.size() > kStopBytesMax)
      return wrong_value("stop", entry, expected);
    out.stop.push_back(text);
  }
  return {};
}

// `name`, where false is a way to say no.
Result<std::optional<int>> read_count(const Json& body, const char* name) {
  const auto* value = find_field(body, name);
  if (!value || *value == false) return std::optional<int>();
  const auto count =
      read_integer(body, name, {.min = 0, .max = kTopLogprobsMax});
  if (!count) return count.error();
  return std::optional(static_cast<int>(**count));
}

Result<std::optional<int>> read_chat_logprobs(const Json& body) {
  const auto wanted = read_bool(body, "logprobs", false);
  if (!wanted) return wanted.error();
  const auto top =
      read_integer(body, "top_logprobs", {.min = 0, .max = kTopLogprobsMax});
  if (!top) return top.error();
  if (*wanted) return std::optional(static_cast<int>(top->value_or(0)));
  if (top->value_or(0) > 0)
    return Error{ErrorKind::invalid,
                 fmt::format("`top_logprobs` is {}, and `logprobs` is not "
                             "true: send \"logprobs\": true with it.",
                             **top),
                 "top_logprobs"};
  return std::optional<int>();
}

// llama.cpp's n_probs is 0 where there are to be none.
Result<std::optional<int>> read_completion_logprobs(const Json& body) {
  const auto logprobs = read_count(body, "logprobs");
  if (!logprobs) return logprobs.error();
  const auto n_probs =
      read_integer(body, "n_probs", {.min = 0, .max = kTopLogprobsMax});
  if (!n_probs) return n_probs.error();
  if (n_probs->value_or(0) == 0) return *logprobs;
  if (*logprobs && **logprobs != **n_probs)
    return two_values("logprobs", **logprobs, "n_probs", **n_probs);
  return std::optional(static_cast<int>(**n_probs));
}

Result<void> read_logprobs(const Json& body, const Scope& scope,
                           GenerationParameters& out) {
  const auto logprobs = scope.kind == EndpointKind::chat
                            ? read_chat_logprobs(body)
                            : read_completion_logprobs(body);
  if (!logprobs) return logprobs.error();
  out.logprobs = *logprobs;
  const auto prompt = read_count(body, "prompt_logprobs");
  if (!prompt) return prompt.error();
  out.prompt_logprobs = *prompt;
  if (out.prompt_logprobs && out.stream)
    return Error{ErrorKind::invalid,
                 "`prompt_logprobs` are not streamed: send \"stream\": false, "
                 "or \"echo\" with \"logprobs\".",
                 "prompt_logprobs"};
  return {};
}

Result<void> read_switches(const Json& body, const Scope& scope,
                           GenerationParameters& out) {
  struct Switch {
    const char* name;
    bool GenerationParameters::*field;
  };
  constexpr Switch kSwitches[] = {
      {"stream", &GenerationParameters::stream},
      {"echo", &GenerationParameters::echo},
      {"ignore_eos", &GenerationParameters::ignore_eos},
      {"include_stop_str_in_output", &GenerationParameters::include_stop},
      {"cache_prompt", &GenerationParameters::cache_prompt},
      {"return_token_ids", &GenerationParameters::return_token_ids}};
  for (const auto& [name, field] : kSwitches) {
    if (field == &GenerationParameters::echo &&
        scope.kind == EndpointKind::chat)
      continue;
    const auto value = read_bool(body, name, out.*field);
    if (!value) return value.error();
    out.*field = *value;
  }
  const auto* options = find_field(body, "stream_options");
  if (!options) return {};
  if (!options->is_object())
    return wrong_value("stream_options", *options, "an object");
  const auto usage = read_bool(*options, "include_usage", false);
  if (!usage)
    return wrong_value("stream_options.include_usage",
                       (*options)["include_usage"], "true or false");
  out.include_usage = *usage;
  return {};
}

}  // namespace

Result<GenerationParameters> parse_parameters(const Json& body,
                                              EndpointKind kind,
                                              int vocabulary) {
  GenerationParameters out;
  const Scope scope{kind, vocabulary};
  for (auto* read : {read_sampling, read_penalties, read_bias, read_seed,
                     read_choices, read_lengths, read_stop, read_stop_tokens,
                     read_switches, read_logprobs}) {
    const auto done = read(body, scope, out);
    if (!done) return done.error();
  }
  const auto served = refuse_unserved(body, kind);
  if (!served) return served.error();
  return out;
}

Result<std::string> parse_model_name(const Json& body) {
  const auto* model = find_field(body, "model");
  if (!model) return std::string();
  if (!model->is_string()) return wrong_value("model", *model, "a string");
  return model->get<std::string>();
}

}  // namespace reprise
