// A client's messages → what chat templates expect: the preparation that
// transformers' apply_chat_template and OpenAI-compatible servers do.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace reprise {

// What a template does with a message's content.
enum class ContentForm {
  string,  // prints it
  parts,   // walks over a list of {"type": "text", "text": ...}
};

// What stands for the content of a message that has none: an absent key is
// what transformers gives a template when tools are called, an empty string
// what templates survive that read the content in any case.
enum class MissingContent { absent, empty };

// In OpenAI's shape. Of the result: keys whose value is null are gone; the
// content is a string (text parts joined) or a list of one text part; without
// tool calls it is always there; tool calls' arguments are objects where they
// can be read as one; reasoning stands under every name that templates use.
// Errors: invalid with the place, unsupported for media.
Result<nlohmann::ordered_json> prepare_messages(
    const nlohmann::ordered_json& messages, ContentForm form,
    MissingContent missing);

}  // namespace reprise
