#include "server/access_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "server/http.h"

namespace reprise {

namespace {

constexpr std::size_t kIdMax = 128;
constexpr std::size_t kShownMax = 256;

// A path may hold anything, line ends included: only what cannot be taken for
// another field or line is shown as it is.
std::string field(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownMax)) {
    if (is_visible(c) && c != '"' && c != '%')
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (text.size() > kShownMax) out += "...";
  return out.empty() ? "-" : out;
}

std::string field(const std::optional<int>& count) {
  return count ? std::to_string(*count) : "-";
}

double milliseconds(RequestRecord::Time from, RequestRecord::Time to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

std::string request_id(const HttpRequest& head) {
  const auto given = head.header("X-Request-Id");
  if (!given.empty() && given.size() <= kIdMax &&
      std::all_of(given.begin(), given.end(), is_visible))
    return std::string(given);
  static std::random_device random;
  return fmt::format("req-{:08x}{:08x}{:08x}{:08x}", random(), random(),
                     random(), random());
}

std::string access_line(const RequestRecord& record,
                        RequestRecord::Time ended) {
  std::string first = "-";
  if (record.first_byte)
    first =
        fmt::format("{:.1f}", milliseconds(record.started, *record.first_byte));
  return fmt::format(
      "request id={} client={} method={} path={} status={} first_byte_ms={} "
      "total_ms={:.1f} bytes={} prompt_tokens={} cached_tokens={} "
      "completion_tokens={}",
      record.id, record.client, field(record.method), field(record.path),
      record.status, first, milliseconds(record.started, ended),
      record.bytes_sent, field(record.prompt_tokens),
      field(record.cached_tokens), field(record.completion_tokens));
}

}  // namespace reprise
