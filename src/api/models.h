// /v1/models: the one model that is loaded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace reprise {

struct ModelCard {
  std::string id;
  std::int64_t created = 0;  // Unix time, seconds
  int context_tokens = 0;    // prompt and reply of one request
  int vocabulary = 0;
};

// {id, object: "model", created, owned_by, max_model_len, meta}
nlohmann::json model_json(const ModelCard& card);

// {object: "list", data: [model]}
nlohmann::json model_list_json(const ModelCard& card);

}  // namespace reprise
