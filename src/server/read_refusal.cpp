#include "server/read_refusal.h"

#include <fmt/format.h>

#include <boost/beast/http/error.hpp>
#include <string>

#include "api/errors.h"

namespace reprise {

namespace http = boost::beast::http;

namespace {

// Of all headers with this name, the values that are not `allowed`.
std::optional<std::string> other_value(const RequestParser& parser,
                                       http::field name,
                                       std::string_view allowed) {
  const auto [first, last] = parser.get().equal_range(name);
  for (auto at = first; at != last; ++at) {
    const std::string value(at->value());
    if (!equals_ignoring_case(value, allowed)) return value;
  }
  return std::nullopt;
}

HttpReply body_too_large(const RequestParser& parser,
                         const ServerOptions& options) {
  // The parser's own content_length() may not be asked: its header counts as
  // unfinished when this limit stops it.
  const std::string length(parser.get()[http::field::content_length]);
  return error_reply(
      413,
      Error{ErrorKind::too_large,
            fmt::format(
                "The request's body{} is larger than the limit of {} bytes.",
                length.empty() ? "" : fmt::format(" of {} bytes", length),
                options.body_bytes_max)});
}

}  // namespace

HttpReply too_slow(RequestPart part, const ServerOptions& options) {
  const bool body = part == RequestPart::body;
  return error_reply(
      408,
      Error{
          ErrorKind::invalid,
          fmt::format(
              "The request's {} did not arrive within {} ms.",
              body ? "body" : "header",
              (body ? options.body_timeout : options.header_timeout).count())});
}

std::optional<HttpReply> refusal_of(boost::system::error_code error,
                                    const RequestParser& parser,
                                    const ServerOptions& options) {
  if (error == http::error::end_of_stream) return std::nullopt;
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow)
    return error_reply(
        431,
        Error{ErrorKind::too_large,
              fmt::format(
                  "The request's header is larger than the limit of {} bytes.",
                  options.header_bytes_max)});
  if (error == http::error::body_limit) return body_too_large(parser, options);
  static const auto& kHttpErrors =
      http::make_error_code(http::error::bad_method).category();
  if (error.category() != kHttpErrors) return std::nullopt;
  return error_reply(
      400,
      Error{ErrorKind::invalid,
            fmt::format("This is not an HTTP request that can be read: {}.",
                        error.message())});
}

std::optional<HttpReply> refuse_coding(const RequestParser& parser) {
  if (const auto coding =
          other_value(parser, http::field::transfer_encoding, "chunked"))
    return error_reply(
        501, Error{ErrorKind::unsupported,
                   fmt::format("The transfer coding {} is not served: send the "
                               "body as it is, or chunked.",
                               shown(*coding))});
  if (const auto coding =
          other_value(parser, http::field::content_encoding, "identity")) {
    auto reply = error_reply(
        415, Error{ErrorKind::unsupported,
                   fmt::format("The content coding {} is not served: send the "
                               "body without compression.",
                               shown(*coding))});
    reply.headers.emplace_back("Accept-Encoding", "identity");
    return reply;
  }
  return std::nullopt;
}

HttpReply no_room_for_body(const BodyBudget& budget) {
  return error_reply(
      503, Error{ErrorKind::unavailable,
                 fmt::format("The requests that are being read take up the {} "
                             "bytes that they may have together. Try again in "
                             "a moment.",
                             budget.bytes_max())});
}

}  // namespace reprise
