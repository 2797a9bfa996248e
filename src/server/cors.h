// What web pages may do here. Pure.
//
// A browser runs pages of strangers beside this server, and reaches addresses
// that nobody else reaches: localhost above all. So, by default, no page may
// use the server: none may read a reply (no CORS headers); without a key none
// may cause work by a POST that it cannot read the reply of; and a server on
// loopback without a key does not answer to a stranger's host name that was
// made to point here (DNS rebinding), for such a page would be of the same
// origin. --cors-origin names the pages that may.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http.h"

namespace reprise {

// "*", "null", or scheme://host[:port]: what browsers send as Origin.
// Errors: invalid, with the value and the form.
Result<void> check_origin(const std::string& origin);

// OPTIONS that asks what a page may do, before it does it.
bool is_preflight(const HttpRequest& head);

// The headers for every reply to this request, errors and streams included.
HttpHeaders cors_headers(const HttpRequest& head,
                         const std::vector<std::string>& origins);

// 403 for a POST (or another method that is not only for reading) of a page
// whose origin is neither listed nor the server itself. For servers without a
// key: with one, a page that cannot bring it is refused anyway.
std::optional<HttpReply> refuse_origin(const HttpRequest& head,
                                       const std::vector<std::string>& origins);

// 403 where the Host is a name that a stranger may own. Taken are addresses,
// localhost and names below it, names without a dot (public DNS has none),
// `own` (--host), and the hosts of listed origins. For servers on loopback
// without a key.
std::optional<HttpReply> refuse_host(const HttpRequest& head,
                                     const std::string& own,
                                     const std::vector<std::string>& origins);

}  // namespace reprise
