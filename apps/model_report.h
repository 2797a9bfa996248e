// What `reprise show` says of a model, as JSON; and the same for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/inspect_model.h"

namespace reprise {

using Report = nlohmann::ordered_json;

// Everything but the text side. With `list_tensors`, each tensor too.
Report model_report(const ModelInspection& model, bool list_tensors);

// Adds "tokenizer_tokens", "chat_template" and "end_tokens", or why the text
// side cannot be used.
void add_text_report(Report& report, const std::string& path);

// The report in lines.
std::string report_text(const Report& report);

}  // namespace reprise
