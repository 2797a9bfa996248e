// The subcommands of `reprise`. Each declares its flags on the app and
// returns the function that runs it; that function's result is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"
#include "request/request.h"

namespace reprise {

using CommandMain = std::function<int()>;

// Prints the error for the user; the exit code to end with.
int fail(const Error& error);

// --temperature and --seed of the commands that generate by themselves.
void add_sampling_flags(CLI::App& command, SamplingParams& sampling);

CommandMain add_serve(CLI::App& app);
CommandMain add_chat(CLI::App& app);
CommandMain add_run(CLI::App& app);
CommandMain add_show(CLI::App& app);
CommandMain add_logits(CLI::App& app);
CommandMain add_template(CLI::App& app);

}  // namespace reprise
