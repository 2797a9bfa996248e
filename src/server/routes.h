// Which paths are served, and the replies that need no generation.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "server/http.h"
#include "server/service.h"

namespace reprise {

enum class Endpoint { chat, completions, tokenize, detokenize, apply_template };

// Where a request goes: a reply that is ready, or an endpoint whose
// reply takes its time.
struct Route {
  std::variant<HttpReply, Endpoint> target;
  std::string name;  // of the endpoint, for metrics: "/v1/models", "other"
};

// GET also serves HEAD; OPTIONS is answered for every path that is served, 405
// carries Allow, 404 names the paths that exist.
Route find_route(const HttpRequest& request, Service& service);

// Nothing while requests can be served; else why not, for /health and for
// requests that come too early.
std::optional<Error> unavailable_reason(
    const std::optional<EngineStatus>& status);

}  // namespace reprise
