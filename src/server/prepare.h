// A body → a request for the engine: JSON, checks, chat template, tokens. May
// take long for a long prompt, so it runs on the work pool. Pure: no sockets.
#pragma once

#include <string_view>

#include "api/parameters.h"
#include "base/result.h"
#include "request/request.h"
#include "server/model_services.h"
#include "server/routes.h"

namespace reprise {

struct PreparedRequest {
  Request request;  // ready for the engine, the seed drawn if none was given
  GenerationParameters parameters;
};

// Errors: as api/*.h; not_found model_not_found for another model's name;
// context_length_exceeded, with both numbers, for a prompt that leaves no room
// for a reply. max_tokens beyond the context is cut to what fits.
Result<PreparedRequest> prepare(Endpoint endpoint, std::string_view body,
                                const ModelServices& model);

}  // namespace reprise
