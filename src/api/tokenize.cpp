#include "api/tokenize.h"

#include <utility>

#include "api/fields.h"

namespace reprise {

namespace {

Result<void> read_switch(const Json& body, const char* name, bool& out) {
  const auto value = read_bool(body, name, out);
  if (!value) return value.error();
  out = *value;
  return {};
}

}  // namespace

Result<TokenizeRequest> parse_tokenize_request(const Json& body) {
  TokenizeRequest out;
  const char* subject = nullptr;
  for (const char* name : {"content", "prompt", "messages"}) {
    if (!find_field(body, name)) continue;
    if (subject)
      return Error{ErrorKind::invalid,
                   std::string("`") + subject + "` and `" + name +
                       "` were both sent: send one of them.",
                   name};
    subject = name;
  }
  if (!subject)
    return Error{ErrorKind::invalid,
                 "Nothing to tokenize: send `content`, `prompt` or `messages`.",
                 "content"};
  out.is_chat = subject == std::string("messages");
  if (!out.is_chat) {
    const auto& text = *find_field(body, subject);
    if (!text.is_string()) return wrong_value(subject, text, "a string");
    out.text = text.get<std::string>();
  }
  out.add_special = subject == std::string("prompt");
  const std::pair<const char*, bool*> switches[] = {
      {"add_special", &out.add_special},
      {"add_special_tokens", &out.add_special},
      {"parse_special", &out.parse_special},
      {"with_pieces", &out.with_pieces},
      {"return_token_strs", &out.token_strings}};
  for (const auto& [name, field] : switches) {
    const auto read = read_switch(body, name, *field);
    if (!read) return read.error();
  }
  return out;
}

Json tokenize_reply(const TokenizeRequest& request,
                    std::span<const TokenId> ids, int context_tokens,
                    const TokenBytesOf& bytes_of) {
  Json tokens = Json::array();
  for (const TokenId id : ids) {
    if (!request.with_pieces) {
      tokens.push_back(id);
      continue;
    }
    tokens.push_back({{"id", id}, {"piece", text_or_bytes(bytes_of(id))}});
  }
  Json out = {{"count", ids.size()},
              {"max_model_len", context_tokens},
              {"tokens", std::move(tokens)}};
  if (!request.token_strings) return out;
  out["token_strs"] = Json::array();
  for (const TokenId id : ids)
    out["token_strs"].push_back(text_or_escapes(bytes_of(id)));
  return out;
}

}  // namespace reprise
