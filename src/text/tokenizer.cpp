#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/mapped_file.h"
#include "text/tokenizer_state.h"

namespace reprise {
namespace {

constexpr std::size_t kPieceBytesMax = std::size_t{16} << 20;

// Up to this size a text is tokenized in any case, so that who hears that it
// is too long hears how long it is. Beyond, a megabyte can cost seconds and
// hundreds of megabytes.
constexpr std::size_t kCountedBytesMax = std::size_t{256} << 10;

std::vector<TokenId> to_token_ids(const std::vector<std::uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::vector<TokenId> special_ids_of(const reprise_tokenizer* handle) {
  reprise_ids ids{};
  if (reprise_tokenizer_specials(handle, &ids) != REPRISE_OK) return {};
  return to_token_ids(crate::take(ids));
}

std::vector<std::string> texts_of(const reprise_tokenizer* handle,
                                  const std::vector<TokenId>& ids) {
  std::vector<std::string> texts;
  for (TokenId id : ids) {
    reprise_buffer text{};
    if (reprise_tokenizer_token_text(handle, id, &text) == REPRISE_OK)
      texts.push_back(crate::take(text));
  }
  return texts;
}

// Never less than what a token stands for: byte-level and sentencepiece
// spellings are as long as the bytes that they spell, or longer.
std::size_t longest_token(const reprise_tokenizer* handle, int size) {
  std::size_t longest = 1;
  for (TokenId id = 0; id < size; ++id) {
    reprise_buffer text{};
    if (reprise_tokenizer_token_text(handle, id, &text) == REPRISE_OK)
      longest = std::max(longest, crate::take(text).size());
  }
  return longest;
}

TokenId plain_token(const reprise_tokenizer* handle) {
  for (const char letter : std::string_view("abcdefghijklmnopqrstuvwxyz")) {
    const auto id =
        reprise_tokenizer_token_id(handle, crate::text({&letter, 1}));
    if (id >= 0) return static_cast<TokenId>(id);
  }
  return 0;
}

Error too_long(std::size_t tokens, int tokens_max) {
  return Error{.kind = ErrorKind::invalid,
               .message = fmt::format(
                   "The prompt has {} tokens or more, and the context holds {} "
                   "and a reply. Shorten it.",
                   tokens, tokens_max),
               .code = "context_length_exceeded"};
}

std::vector<reprise_text> borrowed(const std::vector<std::string>& strings) {
  std::vector<reprise_text> out;
  out.reserve(strings.size());
  for (const std::string& s : strings) out.push_back(crate::text(s));
  return out;
}

}  // namespace

Tokenizer::State::State(crate::Owned<reprise_tokenizer> tokenizer)
    : handle(std::move(tokenizer)),
      size(static_cast<int>(reprise_tokenizer_size(handle.get()))),
      longest(longest_token(handle.get(), size)),
      special_ids(special_ids_of(handle.get())),
      special_texts(texts_of(handle.get(), special_ids)),
      special_text(special_texts),
      plain_id(plain_token(handle.get())),
      plain_text(decode(std::span(&plain_id, 1), /*skip_specials=*/false)),
      pieces(kPieceBytesMax) {}

// Ids that are in the vocabulary.
Result<std::string> Tokenizer::State::decode(std::span<const TokenId> ids,
                                             bool skip_specials) const {
  const std::vector<std::uint32_t> given(ids.begin(), ids.end());
  reprise_buffer text{};
  const int status = reprise_tokenizer_decode(
      handle.get(), given.data(), given.size(), skip_specials, &text);
  if (status != REPRISE_OK) return crate::error(status);
  return crate::take(text);
}

Result<std::vector<TokenId>> Tokenizer::State::encode(std::string_view text,
                                                      int mode) const {
  reprise_ids ids{};
  const int status =
      reprise_tokenizer_encode(handle.get(), crate::text(text), mode, &ids);
  if (status != REPRISE_OK) return crate::error(status);
  return to_token_ids(crate::take(ids));
}

Result<std::vector<Tokenizer::State::Piece>> Tokenizer::State::split(
    std::string_view text) const {
  reprise_ids ids{};
  const int status =
      reprise_tokenizer_split(handle.get(), crate::text(text), &ids);
  if (status != REPRISE_OK) return crate::error(status);
  const auto triples = crate::take(ids);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i + 2 < triples.size(); i += 3) {
    const bool is_text =
        triples[i] == std::numeric_limits<std::uint32_t>::max();
    pieces.push_back(
        {is_text ? -1 : static_cast<TokenId>(triples[i]),
         text.substr(triples[i + 1], triples[i + 2] - triples[i + 1])});
  }
  return pieces;
}

Result<std::vector<TokenId>> Tokenizer::State::encode_piece(
    std::string_view text, bool first) const {
  std::string key(1, first ? '1' : '0');
  key += text;
  if (auto known = pieces.find(key)) return *std::move(known);
  auto ids = encode(text, first ? REPRISE_TEXT : REPRISE_TEXT_INSIDE);
  if (ids) pieces.insert(key, *ids);
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::State::encode_pieces(
    std::string_view text, const SpecialBreaker* breaker,
    int tokens_max) const {
  const auto most = static_cast<std::size_t>(tokens_max);
  const bool large = text.size() > kCountedBytesMax;
  if (large) {
    const std::size_t bytes =
        breaker ? breaker->clean(text).size() : text.size();
    if (bytes / longest > most) return too_long(bytes / longest, tokens_max);
  }
  const auto pieces = split(text);
  if (!pieces) return pieces.error();
  std::vector<TokenId> out;
  for (const Piece& piece : *pieces) {
    if (large && out.size() > most) return too_long(out.size(), tokens_max);
    if (piece.special >= 0) {
      out.push_back(piece.special);
      continue;
    }
    const bool first = piece.text.data() == text.data();
    const auto ids = breaker ? encode_piece(breaker->clean(piece.text), first)
                             : encode_piece(piece.text, first);
    if (!ids) return ids.error();
    out.insert(out.end(), ids->begin(), ids->end());
  }
  return out;
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_file(
    const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  const auto bytes = (*file)->bytes();
  reprise_tokenizer* handle = nullptr;
  const int status = reprise_tokenizer_from_json(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &handle);
  if (status != REPRISE_OK) {
    Error error = crate::error(status);
    if (error.kind == ErrorKind::invalid) error.kind = ErrorKind::corrupt;
    error.message = fmt::format("'{}': {}", path, error.message);
    return error;
  }
  auto state = std::make_unique<State>(crate::Owned<reprise_tokenizer>(handle));
  state->prompt_bos =
      static_cast<TokenId>(reprise_tokenizer_first_token(handle));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(
    const GgufVocabulary& vocabulary) {
  const auto tokens = borrowed(vocabulary.tokens);
  const auto merges = borrowed(vocabulary.merges);
  const reprise_gguf_vocabulary given{.model = crate::text(vocabulary.model),
                                      .pre = crate::text(vocabulary.pre),
                                      .tokens = tokens.data(),
                                      .token_count = tokens.size(),
                                      .types = vocabulary.types.data(),
                                      .type_count = vocabulary.types.size(),
                                      .merges = merges.data(),
                                      .merge_count = merges.size()};
  reprise_tokenizer* handle = nullptr;
  const int status = reprise_tokenizer_from_gguf(&given, &handle);
  if (status != REPRISE_OK) {
    Error error = crate::error(status);
    if (error.kind == ErrorKind::invalid) error.kind = ErrorKind::corrupt;
    return error;
  }
  auto state = std::make_unique<State>(crate::Owned<reprise_tokenizer>(handle));
  if (vocabulary.add_bos) {
    if (vocabulary.bos < 0 || vocabulary.bos >= state->size)
      return Error{
          ErrorKind::corrupt,
          fmt::format(
              "tokenizer.ggml.bos_token_id is {}, outside the vocabulary of "
              "{}, and add_bos_token asks for it",
              vocabulary.bos, state->size)};
    state->prompt_bos = state->chat_bos = vocabulary.bos;
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               Specials specials) const {
  return state_->encode(text, specials == Specials::parse
                                  ? REPRISE_PARSE_SPECIALS
                                  : REPRISE_TEXT);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids,
                                      bool skip_specials) const {
  for (TokenId id : ids)
    if (id < 0 || id >= size())
      return Error{ErrorKind::invalid,
                   fmt::format("token id {} is outside the vocabulary of {}",
                               id, size())};
  return state_->decode(ids, skip_specials);
}

Result<std::vector<TokenId>> Tokenizer::encode_prompt(std::string_view text,
                                                      int tokens_max) const {
  return state_->encode_pieces(text, nullptr, tokens_max);
}

TokenId Tokenizer::token_id(std::string_view token) const {
  return static_cast<TokenId>(
      reprise_tokenizer_token_id(state_->handle.get(), crate::text(token)));
}

bool Tokenizer::is_special(TokenId id) const {
  return std::binary_search(state_->special_ids.begin(),
                            state_->special_ids.end(), id);
}

int Tokenizer::size() const {
  return state_->size;
}

std::vector<std::string> Tokenizer::special_tokens() const {
  return state_->special_texts;
}

void Tokenizer::begin_prompt(std::vector<TokenId>& ids) const {
  const TokenId bos = prompt_bos();
  if (bos >= 0 && (ids.empty() || ids.front() != bos))
    ids.insert(ids.begin(), bos);
}

TokenId Tokenizer::prompt_bos() const {
  return state_->prompt_bos;
}

}  // namespace reprise
