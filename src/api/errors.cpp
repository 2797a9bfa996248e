#include "api/errors.h"

namespace reprise {

namespace {

const char* error_type(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

int http_status(const Error& error) {
  // A prompt that does not fit is a bad request, not a body over the limit:
  // that is what OpenAI answers, and what clients that shorten prompts expect.
  if (error.code == "context_length_exceeded") return 400;
  switch (error.kind) {
    case ErrorKind::invalid:
    case ErrorKind::unsupported:
      return 400;
    case ErrorKind::not_found:
      return 404;
    case ErrorKind::too_large:
      return 413;
    case ErrorKind::busy:
      return 429;
    case ErrorKind::unavailable:
      return 503;
    case ErrorKind::corrupt:
    case ErrorKind::internal:
      return 500;
  }
  return 500;
}

Json error_body(int status, const Error& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error_type(status)},
            {"param", text_or_null(error.subject)},
            {"code", text_or_null(error.code)}}}};
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise
