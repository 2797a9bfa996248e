#include "api/logprobs.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise {

namespace {

float shown(float logprob) {
  return std::max(logprob, kLogprobMin);  // also in place of -infinity
}

bool is_utf8(const std::string& bytes) {
  try {
    Json(bytes).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// Text as it is; what is no text as escapes behind `prefix`.
std::string spelled(const std::string& bytes, const char* prefix) {
  if (is_utf8(bytes)) return bytes;
  std::string out = prefix;
  for (const char c : bytes)
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

Json byte_list(const std::string& bytes) {
  Json out = Json::array();
  for (const char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}

Json chat_token(const std::string& bytes, float logprob) {
  return {{"token", spelled(bytes, "")},
          {"logprob", shown(logprob)},
          {"bytes", byte_list(bytes)}};
}

}  // namespace

std::string text_or_escapes(const std::string& bytes) {
  return spelled(bytes, "");
}

Json text_or_bytes(const std::string& bytes) {
  return is_utf8(bytes) ? Json(bytes) : byte_list(bytes);
}

Json chat_logprobs(std::span<const ScoredToken> tokens,
                   const TokenBytesOf& bytes_of) {
  Json content = Json::array();
  for (const auto& token : tokens) {
    if (!token.logprobs) continue;
    auto entry = chat_token(bytes_of(token.id), token.logprobs->logprob);
    Json top = Json::array();
    for (const auto& [id, logprob] : token.logprobs->top)
      top.push_back(chat_token(bytes_of(id), logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(std::span<const ScoredToken> tokens,
                         const TokenBytesOf& bytes_of) {
  const auto name = [&](TokenId id) { return spelled(bytes_of(id), "bytes:"); };
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const auto& token : tokens) {
    const auto own = name(token.id);
    out["tokens"].push_back(own);
    out["text_offset"].push_back(token.text_offset);
    if (!token.logprobs) {
      out["token_logprobs"].push_back(nullptr);
      out["top_logprobs"].push_back(nullptr);
      continue;
    }
    out["token_logprobs"].push_back(shown(token.logprobs->logprob));
    Json top = Json::object();
    // Two tokens may spell the same: the likelier one is meant.
    for (const auto& [id, logprob] : token.logprobs->top)
      if (auto text = name(id); !top.contains(text))
        top[std::move(text)] = shown(logprob);
    if (!top.contains(own)) top[own] = shown(token.logprobs->logprob);
    out["top_logprobs"].push_back(std::move(top));
  }
  return out;
}

Json prompt_logprobs(std::span<const ScoredToken> tokens,
                     const TokenBytesOf& bytes_of) {
  Json out = Json::array();
  for (const auto& token : tokens) {
    if (!token.logprobs) {
      out.push_back(nullptr);
      continue;
    }
    Json entry = Json::object();
    const auto add = [&](TokenId id, float logprob, int rank) {
      entry[std::to_string(id)] = {
          {"logprob", shown(logprob)},
          {"rank", rank},
          {"decoded_token", spelled(bytes_of(id), "")}};
    };
    add(token.id, token.logprobs->logprob, token.logprobs->rank);
    int rank = 0;
    for (const auto& [id, logprob] : token.logprobs->top)
      if (++rank; id != token.id) add(id, logprob, rank);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace reprise
