// The endpoints that need a model's text side and no engine: /tokenize,
// /detokenize, /apply-template. Long texts take their time, so this runs on
// the work pool. Pure: no sockets.
#pragma once

#include <string_view>

#include "api/json.h"
#include "base/result.h"
#include "server/model_services.h"
#include "server/routes.h"

namespace reprise {

inline bool is_text_endpoint(Endpoint endpoint) {
  return endpoint != Endpoint::chat && endpoint != Endpoint::completions;
}

// The reply's JSON. Errors: as api/*.h; context_length_exceeded for a text
// that certainly has more tokens than the context and is too large to count.
Result<Json> answer_text(Endpoint endpoint, std::string_view body,
                         const ModelServices& model);

}  // namespace reprise
