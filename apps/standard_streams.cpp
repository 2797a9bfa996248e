#include "standard_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/size.h"

namespace reprise {

Result<std::string> read_input(const std::string& path, std::size_t bytes_max) {
  const Error unreadable{ErrorKind::not_found,
                         fmt::format("'{}' cannot be read", path)};
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return unreadable;
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  char piece[1 << 16];
  while (in.read(piece, sizeof piece), in.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(in.gcount()));
    if (text.size() > bytes_max)
      return Error{
          ErrorKind::too_large,
          fmt::format("'{}' has more than {}", path, format_size(bytes_max))};
  }
  if (in.bad()) return unreadable;
  return text;
}

Result<void> print_output(std::string_view text) {
  const auto written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return {};
  return Error{ErrorKind::internal,
               "standard output could not be written: nothing is shown"};
}

}  // namespace reprise
