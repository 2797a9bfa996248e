#include "environment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace reprise {

namespace {

// "state-memory" → "REPRISE_STATE_MEMORY"
std::string variable_of(const std::string& option) {
  std::string name = "REPRISE_" + option;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

// CLI11 tells an option's name and value, not where the value came from.
bool refuses_its_variable(CLI::Option& option) {
  const char* value = std::getenv(option.get_envname().c_str());
  if (!value || option.results() != CLI::results_t{value}) return false;
  try {
    option.run_callback();
    return false;
  } catch (const CLI::ParseError&) {
    return true;
  }
}

}  // namespace

void add_environment(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options())
      if (option != command->get_help_ptr() && !option->get_lnames().empty())
        option->envname(variable_of(option->get_lnames().front()));
    // With a callback of its own, CLI11 reads the variables of the command
    // that was given; without, those of all, and a wrong one for another
    // command would stop this one.
    command->parse_complete_callback([] {});
  }
}

std::string refused_variable(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands())
    for (CLI::Option* option : command->get_options())
      if (!option->get_envname().empty() && refuses_its_variable(*option))
        return option->get_envname();
  return {};
}

}  // namespace reprise
