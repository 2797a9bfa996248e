// What went wrong, in one value that can cross every ring: a kind, which
// decides the HTTP status or the exit code, and one sentence for the user
// that shows the offending value and the remedy.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

enum class ErrorKind {
  invalid,      // the caller's input is wrong (HTTP 400)
  not_found,    // no such file, model, path (HTTP 404)
  too_large,    // over a limit of ours (HTTP 413)
  unsupported,  // understood, and not served by this build (HTTP 400)
  corrupt,      // data that contradicts itself: truncated, lying sizes
  busy,         // a queue is full: try again later (HTTP 429)
  unavailable,  // loading or stopping (HTTP 503)
  internal,     // our fault (HTTP 500)
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;

  // Which input is meant, in the caller's own terms ("temperature",
  // "messages[2].role"), or empty.
  std::string subject = {};

  // A stable word that programs can switch on, or empty: e.g.
  // "context_length_exceeded", "model_not_found".
  std::string code = {};
};

}  // namespace reprise
