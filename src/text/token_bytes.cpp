// Tokenizer::token_bytes: vocabularies spell bytes in two ways that a decoder
// undoes only for whole characters.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "text/crate.h"
#include "text/tokenizer.h"
#include "text/tokenizer_state.h"

namespace reprise {
namespace {

constexpr char kReplacement[] = "\uFFFD";

// GPT-2's printable character for each byte → the byte.
const std::unordered_map<std::uint32_t, char>& byte_of_character() {
  static const auto kMap = [] {
    std::unordered_map<std::uint32_t, char> map;
    std::uint32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) ||
                             (b >= 174 && b <= 255);
      map[printable ? static_cast<std::uint32_t>(b) : next++] =
          static_cast<char>(b);
    }
    return map;
  }();
  return kMap;
}

// Byte-level vocabularies: a character a byte, none above U+017F.
std::optional<std::string> byte_level(std::string_view spelled) {
  std::string out;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    std::uint32_t code = static_cast<unsigned char>(spelled[i]);
    if (code >= 0xC0 && code < 0xE0 && i + 1 < spelled.size())
      code = (code & 0x1F) << 6 |
             (static_cast<unsigned char>(spelled[++i]) & 0x3F);
    const auto found = byte_of_character().find(code);
    if (found == byte_of_character().end()) return std::nullopt;
    out += found->second;
  }
  return out;
}

// SentencePiece's byte fallback: "<0xE4>".
std::optional<std::string> fallback_byte(std::string_view spelled) {
  if (spelled.size() != 6 || !spelled.starts_with("<0x") || spelled[5] != '>')
    return std::nullopt;
  int value = 0;
  for (const char c : spelled.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return std::string(1, static_cast<char>(value));
}

}  // namespace

std::string Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= size()) return "";
  reprise_buffer text{};
  if (reprise_tokenizer_token_text(state_->handle.get(),
                                   static_cast<std::uint32_t>(id),
                                   &text) != REPRISE_OK)
    return "";
  auto spelled = crate::take(text);
  if (is_special(id)) return spelled;
  // Behind another token, since some decoders drop a space at the beginning.
  const std::array ids = {state_->plain_id, id};
  const auto both = decode(ids, /*skip_specials=*/false);
  const auto& before = state_->plain_text;
  if (!both || !before || !both->starts_with(*before)) return spelled;
  auto alone = both->substr(before->size());
  if (alone.find(kReplacement) == std::string::npos) return alone;
  if (auto byte = fallback_byte(spelled)) return *std::move(byte);
  if (auto bytes = byte_level(spelled)) return *std::move(bytes);
  return alone;
}

}  // namespace reprise
