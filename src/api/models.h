// /v1/models: the one model that is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "api/json.h"

namespace reprise {

struct ModelCard {
  std::string id;
  std::int64_t created = 0;  // Unix time, seconds
  int context_tokens = 0;    // prompt and reply of one request
  int vocabulary = 0;
};

// {id, object: "model", created, owned_by, max_model_len, meta}
Json model_json(const ModelCard& card);

// {object: "list", data: [model]}
Json model_list_json(const ModelCard& card);

}  // namespace reprise
