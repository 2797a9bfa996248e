// reprise: reads flags, wires objects, runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "commands.h"
#include "engine/model_runner.h"
#include "environment.h"

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  reprise serve -m ~/models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "  reprise serve -m ~/models/my-model --port 8081 --state-memory 8GiB\n"
    "  reprise chat -m ~/models/my-model\n"
    "  reprise run -m ~/models/my-model -p \"The capital of France is\" --raw\n"
    "  reprise show ~/models/my-model\n"
    "\n"
    "`reprise COMMAND --help` explains each command's flags. Each is also an\n"
    "environment variable (--log-level: REPRISE_LOG_LEVEL); the flag wins.";

// What follows the program's name, in CLI11's order (the last first). Its
// options have one dash and one letter, or two dashes: -np is put in words.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> result(argv + std::min(argc, 1), argv + argc);
  std::replace(result.begin(), result.end(), std::string("-np"),
               std::string("--parallel"));
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  reprise::start_log();
  CLI::App app(
      "Reprise serves language models over OpenAI's API on this machine, and "
      "never computes a prompt's beginning twice.");
  app.name("reprise");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", [] {
    return fmt::format("reprise {} ({})", REPRISE_VERSION,
                       reprise::describe_backend("auto"));
  });

  const std::vector<std::pair<std::string, reprise::CommandMain>> commands = {
      {"serve", reprise::add_serve(app)},
      {"chat", reprise::add_chat(app)},
      {"run", reprise::add_run(app)},
      {"show", reprise::add_show(app)},
      {"logits", reprise::add_logits(app)},
      {"template", reprise::add_template(app)}};
  reprise::add_environment(app);
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    if (const auto name = reprise::refused_variable(app); !name.empty())
      fmt::print(stderr, "The value is that of the variable {}.\n", name);
    return status;
  }
  try {
    for (const auto& [name, run] : commands)
      if (app.got_subcommand(name)) return run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "reprise: error: {}\n", e.what());
  }
  return 1;
}
