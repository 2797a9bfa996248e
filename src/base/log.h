// The process's log: spdlog to standard error, so that standard output stays
// free for text that a user asked for.
#pragma once

#include <string_view>

#include "base/result.h"

namespace reprise {

// trace, debug, info, warning, error, off. Errors: invalid.
Result<void> set_log_level(std::string_view name);

// Call once, first thing in main. After it, include <spdlog/spdlog.h> and use
// spdlog::info(...) from any thread.
void start_log();

}  // namespace reprise
