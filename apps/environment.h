// Every flag of every command as an environment variable, too: --api-key is
// REPRISE_API_KEY. A flag on the command line wins.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace reprise {

// Gives each option of each subcommand its variable; --help shows them. Call
// after all are declared, before the parse.
void add_environment(CLI::App& app);

// After a parse that failed: the variable whose value was refused, or empty.
std::string refused_variable(CLI::App& app);

}  // namespace reprise
