// `reprise template`: what a chat template makes of a context, to the byte.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "commands.h"
#include "text/chat_template.h"
#include "weights/json_text.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;  // templates print keys as they come

struct TemplateFlags {
  std::string source;
  std::string context;
  std::optional<long> now;
};

Result<std::string> read_all(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file)
      return Error{ErrorKind::not_found,
                   fmt::format("'{}' cannot be read", path)};
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (in.bad())
    return Error{ErrorKind::not_found,
                 fmt::format("'{}' cannot be read", path)};
  return text;
}

int render(const TemplateFlags& flags) {
  if (flags.source == "-" && flags.context == "-")
    return fail({ErrorKind::invalid,
                 "template and context cannot both be standard input"});
  const auto source = read_all(flags.source);
  if (!source) return fail(source.error());
  const auto text = read_all(flags.context);
  if (!text) return fail(text.error());
  const auto context = parse_json_text<Json>(*text);
  if (!context.is_object())
    return fail({ErrorKind::invalid,
                 fmt::format("'{}' is not a JSON object", flags.context)});
  const auto compiled = ChatTemplate::compile(*source, Json::object());
  if (!compiled) return fail(compiled.error());
  const long now = flags.now.value_or(std::time(nullptr));
  const auto rendered = (*compiled)->render(context, now);
  if (!rendered) return fail(rendered.error());
  const auto written =
      std::fwrite(rendered->data(), 1, rendered->size(), stdout);
  if (written != rendered->size() || std::fflush(stdout) != 0)
    return fail({ErrorKind::internal,
                 "standard output could not be written: nothing is shown"});
  return 0;
}

}  // namespace

CommandMain add_template(CLI::App& app) {
  auto flags = std::make_shared<TemplateFlags>();
  CLI::App& command = *app.add_subcommand(
      "template", "Render a chat template: prints its bytes and no more");
  command
      .add_option("file", flags->source, "The template (Jinja); - for stdin")
      ->required();
  command
      .add_option("--context", flags->context,
                  "A JSON file with the template's variables (messages, "
                  "add_generation_prompt, bos_token, ...); - for stdin")
      ->required();
  command.add_option("--now", flags->now,
                     "Unix time of strftime_now, instead of the clock's");
  command.footer(
      "Example:\n  reprise template chat_template.jinja --context chat.json");
  return [flags] { return render(*flags); };
}

}  // namespace reprise
