#include "api/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/fields.h"

namespace reprise {

namespace {

// Parameters that clients of OpenAI, llama.cpp and vLLM send and that nothing
// here serves yet, each with the values that change nothing (null never does).
const Json& unserved_parameters() {
  static const Json table = Json::parse(R"({
    "add_generation_prompt": [true],
    "allowed_token_ids": [],
    "audio": [],
    "bad_words": [[]],
    "best_of": [1],
    "chat_template": [""],
    "continue_final_message": [false],
    "documents": [[]],
    "dry_multiplier": [0],
    "dynatemp_range": [0],
    "echo": [false],
    "frequency_penalty": [0],
    "function_call": ["none", "auto"],
    "functions": [[]],
    "grammar": [""],
    "guided_choice": [],
    "guided_grammar": [],
    "guided_json": [],
    "guided_regex": [],
    "include_stop_str_in_output": [false],
    "input_prefix": [""],
    "input_suffix": [""],
    "json_schema": [{}],
    "length_penalty": [1],
    "logit_bias": [{}, []],
    "logprobs": [false],
    "lora": [[]],
    "min_p": [0],
    "min_tokens": [0],
    "mirostat": [0],
    "modalities": [["text"]],
    "n": [1],
    "n_predict": [-1],
    "n_probs": [0],
    "prediction": [],
    "presence_penalty": [0],
    "prompt_embeds": [],
    "prompt_logprobs": [false],
    "reasoning_effort": ["none"],
    "repeat_penalty": [1],
    "repetition_penalty": [1],
    "response_format": [{"type": "text"}],
    "samplers": [],
    "skip_special_tokens": [true],
    "stop_token_ids": [[]],
    "structured_outputs": [],
    "suffix": [""],
    "tfs_z": [1],
    "tool_choice": ["none", "auto"],
    "tools": [[]],
    "top_logprobs": [0],
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

Result<void> refuse_unserved(const Json& body) {
  for (const auto& [name, harmless] : unserved_parameters().items()) {
    const auto* value = find_field(body, name.c_str());
    if (!value) continue;
    if (std::find(harmless.begin(), harmless.end(), *value) != harmless.end())
      continue;
    return Error{
        ErrorKind::unsupported,
        fmt::format(
            "`{}` is not served by this version yet, and {} would change the "
            "reply. Leave it out{}{}.",
            name, describe_value(*value), harmless.empty() ? "" : " or send ",
            harmless.empty() ? "" : harmless[0].dump()),
        name, "unsupported_parameter"};
  }
  return {};
}

Result<void> read_sampling(const Json& body, GenerationParameters& out) {
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

  // -1 (Hugging Face) and 0 (llama.cpp) both mean: keep all.
  const auto top_k = read_integer(
      body, "top_k",
      {.min = -1, .max = std::numeric_limits<std::int32_t>::max()});
  if (!top_k) return top_k.error();
  out.sampling.top_k =
      static_cast<int>(std::max<std::int64_t>(top_k->value_or(0), 0));
  return {};
}

// Any integer of 64 bits, signed or not: -1 is a seed like any other.
Result<void> read_seed(const Json& body, GenerationParameters& out) {
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

Result<void> read_max_tokens(const Json& body, GenerationParameters& out) {
  const IntegerRange range{.min = 1,
                           .max = std::numeric_limits<std::int32_t>::max()};
  const auto old_name = read_integer(body, "max_tokens", range);
  if (!old_name) return old_name.error();
  const auto new_name = read_integer(body, "max_completion_tokens", range);
  if (!new_name) return new_name.error();
  if (*old_name && *new_name && **old_name != **new_name)
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "`max_tokens` is {} and `max_completion_tokens` is {}: they mean "
            "the same, send one of them.",
            **old_name, **new_name),
        "max_tokens"};
  if (*old_name) out.max_tokens = static_cast<int>(**old_name);
  if (*new_name) out.max_tokens = static_cast<int>(**new_name);
  return {};
}

Result<void> read_stop(const Json& body, GenerationParameters& out) {
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

Result<void> read_switches(const Json& body, GenerationParameters& out) {
  struct Switch {
    const char* name;
    bool GenerationParameters::*field;
  };
  constexpr Switch kSwitches[] = {
      {"stream", &GenerationParameters::stream},
      {"ignore_eos", &GenerationParameters::ignore_eos},
      {"cache_prompt", &GenerationParameters::cache_prompt},
      {"return_token_ids", &GenerationParameters::return_token_ids}};
  for (const auto& [name, field] : kSwitches) {
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

Result<GenerationParameters> parse_parameters(const Json& body) {
  GenerationParameters out;
  for (auto* read :
       {read_sampling, read_seed, read_max_tokens, read_stop, read_switches}) {
    const auto done = read(body, out);
    if (!done) return done.error();
  }
  const auto served = refuse_unserved(body);
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
