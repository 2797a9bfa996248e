// Parameters that are known and not served: refused by name where they would
// change the reply, so that nobody takes silence for consent.
#pragma once

#include "api/json.h"
#include "api/parameters.h"
#include "base/result.h"

namespace reprise {

// `body` is an object. Errors: unsupported, with the parameter and its value.
Result<void> refuse_unserved(const Json& body, EndpointKind kind);

}  // namespace reprise
