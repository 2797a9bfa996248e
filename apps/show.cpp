// `reprise show`: what a model is, without loading it.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "commands.h"
#include "engine/inspect_model.h"
#include "model_flags.h"
#include "model_report.h"
#include "standard_streams.h"

namespace reprise {
namespace {

struct ShowFlags {
  std::string model;
  std::string dtype = "auto";
  KvQuantization kv;
  bool json = false;
  bool tensors = false;
};

int show(const ShowFlags& flags) {
  if (const auto set = set_log_level("warning"); !set) return fail(set.error());
  Report report = model_report(
      inspect_model(flags.model, flags.dtype, flags.kv), flags.tensors);
  add_text_report(report, flags.model);
  // Names in a file are anybody's bytes.
  const std::string text =
      flags.json
          ? report.dump(2, ' ', false, Report::error_handler_t::replace) + "\n"
          : report_text(report);
  const auto printed = print_output(text);
  return printed ? 0 : fail(printed.error());
}

}  // namespace

CommandMain add_show(CLI::App& app) {
  auto flags = std::make_shared<ShowFlags>();
  CLI::App& command = *app.add_subcommand(
      "show", "Say what a model is: its size, types, state, what is unused");
  add_model_path(command, flags->model);
  command.add_flag("--json", flags->json, "As JSON");
  command.add_flag("--tensors", flags->tensors, "List every tensor");
  add_dtype(command, flags->dtype);
  add_kv_flags(command, flags->kv);
  command.footer("Example:\n  reprise show model.gguf --json");
  return [flags] { return show(*flags); };
}

}  // namespace reprise
