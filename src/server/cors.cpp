#include "server/cors.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <string_view>

#include "api/errors.h"

namespace reprise {

namespace {

bool takes_all(const std::vector<std::string>& origins) {
  return std::find(origins.begin(), origins.end(), "*") != origins.end();
}

bool is_listed(std::string_view origin,
               const std::vector<std::string>& origins) {
  return std::any_of(origins.begin(), origins.end(), [&](const auto& listed) {
    return listed == "*" || equals_ignoring_case(listed, origin);
  });
}

std::string_view after_scheme(std::string_view origin) {
  const auto scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view{}
                                          : origin.substr(scheme + 3);
}

// "[::1]:8080" → "::1"
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(std::string_view host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

}  // namespace

Result<void> check_origin(const std::string& origin) {
  if (origin == "*" || origin == "null") return {};
  const auto host = after_scheme(origin);
  if (!host.empty() && !origin.starts_with("://") &&
      host.find_first_of("/?#@, \t*") == std::string_view::npos)
    return {};
  return Error{ErrorKind::invalid,
               fmt::format("'{}' is not an origin: give scheme://host[:port] "
                           "without a path, such as https://chat.example.com, "
                           "or * for every page",
                           origin),
               "cors-origin"};
}

bool is_preflight(const HttpRequest& head) {
  return head.method == "OPTIONS" &&
         !head.header("Access-Control-Request-Method").empty();
}

HttpHeaders cors_headers(const HttpRequest& head,
                         const std::vector<std::string>& origins) {
  if (origins.empty()) return {};
  const bool all = takes_all(origins);
  // Caches must not hand one page's headers to another, nor the lack of them.
  HttpHeaders out;
  if (!all) out.emplace_back("Vary", "Origin");
  const auto origin = head.header("Origin");
  if (!all && (origin.empty() || !is_listed(origin, origins))) return out;
  out.emplace_back("Access-Control-Allow-Origin", all ? "*" : origin);
  out.emplace_back("Access-Control-Expose-Headers",
                   "X-Request-Id, Retry-After");
  if (!is_preflight(head)) return out;
  out.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  // "*" would not cover Authorization; the asked-for names cover all.
  if (const auto asked = head.header("Access-Control-Request-Headers");
      !asked.empty())
    out.emplace_back("Access-Control-Allow-Headers", asked);
  out.emplace_back("Access-Control-Max-Age", "7200");
  return out;
}

std::optional<HttpReply> refuse_origin(
    const HttpRequest& head, const std::vector<std::string>& origins) {
  const auto origin = head.header("Origin");
  if (origin.empty() || head.method == "GET" || head.method == "HEAD" ||
      head.method == "OPTIONS" || is_listed(origin, origins) ||
      equals_ignoring_case(after_scheme(origin), head.header("Host")))
    return std::nullopt;
  return error_reply(
      403, Error{ErrorKind::invalid,
                 fmt::format("Pages of the origin {} may not use this server. "
                             "Start it with --cors-origin to let them.",
                             shown(origin)),
                 "", "origin_not_allowed"});
}

std::optional<HttpReply> refuse_host(const HttpRequest& head,
                                     const std::string& own,
                                     const std::vector<std::string>& origins) {
  auto host = without_port(head.header("Host"));
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.find('.') == std::string_view::npos || is_address(host) ||
      equals_ignoring_case(host, own) || takes_all(origins))
    return std::nullopt;
  constexpr std::string_view kLocal = ".localhost";
  if (host.size() > kLocal.size() &&
      equals_ignoring_case(host.substr(host.size() - kLocal.size()), kLocal))
    return std::nullopt;
  for (const auto& origin : origins)
    if (equals_ignoring_case(host, without_port(after_scheme(origin))))
      return std::nullopt;
  return error_reply(
      403,
      Error{ErrorKind::invalid,
            fmt::format("This server listens on this machine only and does not "
                        "answer to the host name {}. Use 127.0.0.1 or "
                        "localhost, or start it with --api-key.",
                        shown(host)),
            "", "host_not_allowed"});
}

}  // namespace reprise
