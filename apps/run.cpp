// `reprise run`: one prompt, one reply; standard output holds only its text.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/log.h"
#include "commands.h"
#include "conversation.h"
#include "model_flags.h"
#include "text_model.h"

namespace reprise {
namespace {

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  bool raw = false;
  int max_tokens = 0;
  SamplingParams sampling;
};

Result<std::vector<TokenId>> prompt_tokens(const RunFlags& flags,
                                           const TextModel& text) {
  if (flags.raw || !text.chat_template) {
    auto tokens = text.tokenizer->encode_prompt(flags.prompt);
    if (tokens) text.tokenizer->begin_prompt(*tokens);
    return tokens;
  }
  const auto messages =
      nlohmann::json::array({{{"role", "user"}, {"content", flags.prompt}}});
  return text.chat_template->encode_chat(messages, {}, *text.tokenizer);
}

int run(const RunFlags& flags) {
  if (const auto set = set_log_level(flags.model.log_level); !set)
    return fail(set.error());
  const auto text = load_text_model(flags.model.model);
  if (!text) return fail(text.error());
  const auto tokens = prompt_tokens(flags, *text);
  if (!tokens) return fail(tokens.error());
  if (tokens->empty())
    return fail({ErrorKind::invalid, "the prompt is empty: give -p \"...\""});
  const auto engine = start_engine(flags.model);
  if (const auto ready = engine->wait_ready(); !ready)
    return fail(ready.error());
  GenerateOptions options;
  options.sampling = flags.sampling;
  options.max_tokens = flags.max_tokens;
  const auto reply = generate(
      *engine, *text, *tokens, options,
      [](const std::string& piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      },
      [] { return std::ferror(stdout) != 0; });
  if (!reply) return fail(reply.error());
  std::fputc('\n', stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return fail({ErrorKind::internal,
                 "standard output could not be written: the reply is lost"});
  return 0;
}

}  // namespace

CommandMain add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  flags->model.parallel = 1;
  flags->model.log_level = "warning";
  CLI::App& command = *app.add_subcommand(
      "run", "Answer one prompt and print only the reply's text");
  add_model_flags(command, flags->model);
  command
      .add_option("-p,--prompt", flags->prompt,
                  "A message to answer, or with --raw a text to go on with")
      ->required();
  command.add_flag("--raw", flags->raw,
                   "Go on with the prompt as it is: no chat template");
  command
      .add_option("-n,--max-tokens", flags->max_tokens,
                  "Tokens of the reply at most (default: to the context's end)")
      ->check(CLI::Range(1, 1 << 30));
  add_sampling_flags(command, flags->sampling);
  command.footer(
      "Example:\n  reprise run -m model.gguf -p \"What is a haiku?\" -n 64");
  return [flags] { return run(*flags); };
}

}  // namespace reprise
