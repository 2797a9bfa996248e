// Where a chat's prompt may go on differently in another request: marks for
// Request::marks.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace reprise {

// `prompt` is what chat.encode_chat made of these messages with these options.
// Each mark is the number of its first tokens that stay the same whatever
// message i says, for the first i behind the system prompt and for the last
// few: so far a prompt reaches that another user, or an edited turn, has in
// common; where a role's name is a special token, up to that. Ascending, inside
// the prompt, at most kMarksMax; a message whose place the template does not
// tell has none. Renders the conversation once for each.
std::vector<int> message_marks(const ChatTemplate& chat,
                               const nlohmann::ordered_json& messages,
                               const ChatTemplate::ChatOptions& options,
                               const Tokenizer& tokenizer,
                               std::span<const TokenId> prompt);

}  // namespace reprise
