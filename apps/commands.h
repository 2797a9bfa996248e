// The subcommands of `reprise`. Each declares its flags on the app and
// returns the function that runs it; that function's result is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace reprise {

using CommandMain = std::function<int()>;

CommandMain add_serve(CLI::App& app);
CommandMain add_chat(CLI::App& app);
CommandMain add_run(CLI::App& app);

}  // namespace reprise
