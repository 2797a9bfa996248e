// The JSON that this folder speaks. Ordered: a chat template prints objects
// with their keys as the client wrote them, and prompts must not depend on an
// alphabet; replies read better too.
#pragma once

#include <nlohmann/json.hpp>

namespace reprise {

using Json = nlohmann::ordered_json;

}  // namespace reprise
