// `reprise template`: what a chat template makes of a context, to the byte.
#include <fmt/format.h>

#include <ctime>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "commands.h"
#include "standard_streams.h"
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

// A template and what it is given are read whole, however large.
constexpr auto kBytesMax = std::numeric_limits<std::size_t>::max();

int render(const TemplateFlags& flags) {
  if (flags.source == "-" && flags.context == "-")
    return fail({ErrorKind::invalid,
                 "template and context cannot both be standard input"});
  const auto source = read_input(flags.source, kBytesMax);
  if (!source) return fail(source.error());
  const auto text = read_input(flags.context, kBytesMax);
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
  const auto printed = print_output(*rendered);
  return printed ? 0 : fail(printed.error());
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
