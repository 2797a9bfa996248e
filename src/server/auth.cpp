#include "server/auth.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "server/cors.h"

namespace reprise {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Every byte is looked at whatever the ones before it were, so that a key
// cannot be found out byte by byte. `key` is not empty.
bool same_secret(std::string_view key, std::string_view given) {
  volatile unsigned different = key.size() != given.size();
  for (std::size_t i = 0; i < given.size(); ++i)
    different =
        different | static_cast<unsigned char>(key[i % key.size()] ^ given[i]);
  return different == 0;
}

bool any_of(const std::vector<std::string>& keys, std::string_view given) {
  bool found = false;
  for (const auto& key : keys) found = same_secret(key, given) || found;
  return found;
}

std::string_view bearer_token(std::string_view authorization) {
  const auto space = authorization.find(' ');
  if (space == std::string_view::npos ||
      !equals_ignoring_case(authorization.substr(0, space), "Bearer"))
    return {};
  return trimmed(authorization.substr(space));
}

bool is_open(const HttpRequest& head) {
  const bool reads = head.method == "GET" || head.method == "HEAD";
  return is_preflight(head) || (reads && head.path == "/health");
}

void warn_if_others_read(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && info.st_mode & (S_IRGRP | S_IROTH))
    spdlog::warn("the API keys in {} can be read by others: chmod 600 it",
                 file);
}

}  // namespace

Result<void> check_api_key(const std::string& key, const std::string& from) {
  if (!key.empty() && std::all_of(key.begin(), key.end(), is_visible))
    return {};
  return Error{ErrorKind::invalid,
               fmt::format("{} is not an API key: give printable characters "
                           "without spaces, at least one",
                           from),
               "api-key"};
}

Result<std::vector<std::string>> read_api_keys(const std::string& file) {
  std::ifstream in(file);
  if (!in)
    return Error{ErrorKind::not_found,
                 fmt::format("The file of API keys '{}' cannot be read", file),
                 "api-key-file"};
  warn_if_others_read(file);
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string key(trimmed(line));
    if (key.empty() || key.starts_with('#')) continue;
    const auto valid = check_api_key(key, fmt::format("{}:{}", file, number));
    if (!valid) return valid.error();
    keys.push_back(key);
  }
  if (in.bad() || keys.empty())
    return Error{ErrorKind::invalid,
                 fmt::format("The file '{}' has no API key: write one a line, "
                             "or leave --api-key-file out to need none",
                             file),
                 "api-key-file"};
  return keys;
}

std::optional<HttpReply> refuse_without_key(
    const HttpRequest& head, const std::vector<std::string>& keys) {
  if (keys.empty() || is_open(head)) return std::nullopt;
  const auto bearer = bearer_token(head.header("Authorization"));
  const auto plain = trimmed(head.header("x-api-key"));
  const bool by_bearer = any_of(keys, bearer);
  const bool by_plain = any_of(keys, plain);
  if (by_bearer || by_plain) return std::nullopt;
  const bool none = bearer.empty() && plain.empty();
  auto reply = error_reply(
      401, Error{ErrorKind::invalid,
                 none ? "An API key is needed. Send it as 'Authorization: "
                        "Bearer KEY' or 'x-api-key: KEY'."
                      : "This API key is not one of this server's. Check the "
                        "key that your client is set up with.",
                 "", "invalid_api_key"});
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace reprise
