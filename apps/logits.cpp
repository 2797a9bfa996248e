// `reprise logits`: the logits after every token of a prompt, to a file.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "commands.h"
#include "engine/evaluate_prompt.h"
#include "engine/model_runner.h"
#include "logits_file.h"
#include "model_flags.h"
#include "token_ids.h"

namespace reprise {
namespace {

// Tokens between two lines of progress.
constexpr int kProgressTokens = 1024;

struct LogitsFlags {
  ModelFlags model;
  std::string ids;
  std::string out;
};

int logits(const LogitsFlags& flags) {
  if (const auto set = set_log_level(flags.model.log_level); !set)
    return fail(set.error());
  const auto ids = read_token_ids(flags.ids);
  if (!ids) return fail(ids.error());
  const auto runner = make_model_runner(runner_options(flags.model));
  std::unique_ptr<LogitsFile> file;  // made when the ids are known to be right
  const auto done =
      evaluate_prompt(*runner, *ids, [&](int first, const StepLogits& rows) {
        if (!file)
          file = std::make_unique<LogitsFile>(flags.out, *ids, rows.vocabulary);
        file->append(rows.values);
        if (first > 0 && first % kProgressTokens == 0)
          fmt::print(stderr, "reprise: {} of {} tokens\n", first, ids->size());
      });
  if (!done) return fail(done.error());
  const auto finished = file->finish();
  return finished ? 0 : fail(finished.error());
}

}  // namespace

CommandMain add_logits(CLI::App& app) {
  auto flags = std::make_shared<LogitsFlags>();
  flags->model.log_level = "warning";
  CLI::App& command = *app.add_subcommand(
      "logits", "Write the logits after every token of a prompt to a file");
  add_model_path(command, flags->model.model);
  command
      .add_option("--ids", flags->ids,
                  "A file with token ids, a JSON array or integers with "
                  "spaces between them; - is the standard input")
      ->required();
  command
      .add_option("-o,--out", flags->out,
                  "The safetensors file to write: input_ids int32 [tokens], "
                  "logits float32 [tokens, vocabulary]")
      ->required();
  add_runner_flags(command, flags->model);
  command.footer(
      "Example:\n  reprise logits model.gguf --ids ids.json --out "
      "logits.safetensors");
  return [flags] { return logits(*flags); };
}

}  // namespace reprise
