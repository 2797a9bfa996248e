#include "base/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace reprise {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {{
    {"", 1.0},
    {"b", 1.0},
    {"kib", 1024.0},
    {"mib", 1024.0 * 1024.0},
    {"gib", 1024.0 * 1024.0 * 1024.0},
}};

Error not_a_size(std::string_view text) {
  return {
      ErrorKind::invalid,
      fmt::format(
          "'{}' is not a size: give bytes, or a number with KiB, MiB or GiB "
          "(for example 4GiB)",
          text)};
}

}  // namespace

Result<std::size_t> parse_size(std::string_view text) {
  double value = 0;
  auto [end, ec] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  // A size beyond 2^53 could not be told from its neighbours.
  if (ec != std::errc() || !std::isfinite(value) || value < 0)
    return not_a_size(text);
  std::string unit(end, text.data() + text.size());
  std::erase(unit, ' ');
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  for (auto [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = value * factor;
    if (bytes > 9007199254740992.0) return not_a_size(text);
    return static_cast<std::size_t>(bytes);
  }
  return not_a_size(text);
}

std::string format_size(std::size_t bytes) {
  constexpr std::array<const char*, 5> names = {"B", "KiB", "MiB", "GiB",
                                                "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  // Four digits, or %g would write 1.02e+03.
  if (value >= 999.5) return fmt::format("{:.0f} {}", value, names[unit]);
  return fmt::format("{:.3g} {}", value, names[unit]);
}

}  // namespace reprise
