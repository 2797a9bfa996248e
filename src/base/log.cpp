#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace reprise {

Result<void> set_log_level(std::string_view name) {
  const auto level = spdlog::level::from_str(std::string(name));
  if (level == spdlog::level::off && name != "off")
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "'{}' is not a log level: choose trace, debug, info, warning, "
            "error or off",
            name)};
  spdlog::set_level(level);
  return {};
}

void start_log() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("reprise"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
}

}  // namespace reprise
