#include "server/target.h"

#include <charconv>

namespace reprise {

std::string decode_path(std::string_view target) {
  if (const auto scheme = target.find("://");
      !target.starts_with('/') && scheme != std::string_view::npos) {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  std::string path;
  path.reserve(target.size());
  for (std::size_t i = 0; i < target.size(); ++i) {
    unsigned value = 0;
    if (target[i] == '%' && i + 2 < target.size()) {
      const char* first = target.data() + i + 1;
      const auto [end, error] = std::from_chars(first, first + 2, value, 16);
      if (error == std::errc() && end == first + 2) {
        path += static_cast<char>(value);
        i += 2;
        continue;
      }
    }
    path += target[i];
  }
  return path;
}

}  // namespace reprise
