// Why a request cannot be read, as the reply that says so. Pure; for the
// transport, as the one who knows the HTTP library's parser.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "server/body_budget.h"
#include "server/http.h"
#include "server/server.h"

namespace reprise {

using RequestParser =
    boost::beast::http::request_parser<boost::beast::http::string_body>;

enum class RequestPart { header, body };

// 408 for a part that did not arrive in its time.
HttpReply too_slow(RequestPart part, const ServerOptions& options);

// What the parser says: 431, 413, 400. Nothing where nobody is there to read a
// reply: the connection was reset, or closed by us.
std::optional<HttpReply> refusal_of(boost::system::error_code error,
                                    const RequestParser& parser,
                                    const ServerOptions& options);

// A body whose header says that it would not be understood: 501 for a transfer
// coding that is not "chunked" alone, 415 for a content coding.
std::optional<HttpReply> refuse_coding(const RequestParser& parser);

// 503: with this body, all that are being read would be over their budget.
HttpReply no_room_for_body(const BodyBudget& budget);

}  // namespace reprise
