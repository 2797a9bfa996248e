#include "serve_flags.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "server/auth.h"
#include "server/cors.h"

namespace reprise {

namespace {

using std::chrono::milliseconds;

void add_who_may_ask(CLI::App& command, ServeFlags& flags) {
  auto& server = flags.server;
  command.add_option("--host", server.host, "Address to listen on")
      ->capture_default_str();
  command
      .add_option("--port", server.port, "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--api-key", server.api_keys,
                  "A key that clients must send; may be given again for more. "
                  "Other users of this machine see it in the list of "
                  "processes: the variable and the file are safer")
      ->allow_extra_args(false);
  command.add_option("--api-key-file", flags.api_key_file,
                     "A file with such keys, one a line, # for comments");
  command
      .add_option("--cors-origin", server.cors_origins,
                  "Web pages that may use this server: https://chat.example, "
                  "or * for all; may be given again (default: none)")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      .add_option("--access-log", flags.access_log,
                  "A line in the log for each request")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
}

void add_limits(CLI::App& command, ServerOptions& server) {
  add_size_flag(command, "--max-header", server.header_bytes_max,
                "Largest header of a request (431)");
  add_size_flag(command, "--max-body", server.body_bytes_max,
                "Largest body of a request (413)");
  add_size_flag(command, "--max-bodies", server.bodies_bytes_max,
                "All bodies that are being read, together (503)");
  command
      .add_option("--max-connections", server.connections_max,
                  "Connections at once; idle ones make room (503)")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

void add_timeouts(CLI::App& command, ServeFlags& flags) {
  auto& server = flags.server;
  add_seconds_flag(command, "--idle-timeout", server.idle_timeout,
                   "Seconds that a connection may be silent between requests");
  add_seconds_flag(command, "--header-timeout", server.header_timeout,
                   "Seconds for a request's header to arrive (408)");
  add_seconds_flag(command, "--body-timeout", server.body_timeout,
                   "Seconds for a request's body to arrive (408)");
  add_seconds_flag(command, "--write-timeout", server.write_timeout,
                   "Seconds that a client may take no more of its reply");
  add_seconds_flag(command, "--step-timeout", flags.model.step_timeout,
                   "Seconds after which /health calls a step stuck");
}

}  // namespace

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  add_model_flags(command, flags.model);
  add_who_may_ask(command, flags);
  add_limits(command, flags.server);
  add_timeouts(command, flags);
}

Result<void> complete(ServeFlags& flags) {
  auto& server = flags.server;
  server.access_log = flags.access_log == "on";
  for (const auto& key : server.api_keys)
    if (const auto valid = check_api_key(key, "a value of --api-key"); !valid)
      return valid;
  if (!flags.api_key_file.empty()) {
    const auto keys = read_api_keys(flags.api_key_file);
    if (!keys) return keys.error();
    server.api_keys.insert(server.api_keys.end(), keys->begin(), keys->end());
  }
  for (const auto& origin : server.cors_origins)
    if (const auto valid = check_origin(origin); !valid) return valid;
  if (server.header_bytes_max > std::numeric_limits<std::uint32_t>::max())
    return Error{ErrorKind::invalid,
                 fmt::format("--max-header is {} bytes: give less than 4 GiB",
                             server.header_bytes_max),
                 "max-header"};
  if (server.bodies_bytes_max < server.body_bytes_max)
    return Error{ErrorKind::invalid,
                 fmt::format("--max-bodies is {} bytes, less than the {} of "
                             "one body: raise it, or lower --max-body",
                             server.bodies_bytes_max, server.body_bytes_max),
                 "max-bodies"};
  return {};
}

}  // namespace reprise
