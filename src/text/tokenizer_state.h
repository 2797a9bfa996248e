// What a Tokenizer holds. For the sources of this folder only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/crate.h"
#include "text/piece_cache.h"
#include "text/special_text.h"
#include "text/tokenizer.h"

namespace reprise {

struct Tokenizer::State {
  explicit State(crate::Owned<reprise_tokenizer> tokenizer);

  Result<std::vector<TokenId>> encode(std::string_view text, int mode) const;
  Result<std::string> decode(std::span<const TokenId> ids,
                             bool skip_specials) const;

  // A special token, or the text up to the next one.
  struct Piece {
    TokenId special = -1;  // or text
    std::string_view text;
  };
  Result<std::vector<Piece>> split(std::string_view text) const;

  // A piece's ids, tokenized once. `first`: nothing stands before it.
  Result<std::vector<TokenId>> encode_piece(std::string_view text,
                                            bool first) const;

  // The whole text: its special tokens' ids, and between them text, whatever
  // it spells. `breaker`, if there is one, cleans each piece first.
  Result<std::vector<TokenId>> encode_pieces(std::string_view text,
                                             const SpecialBreaker* breaker,
                                             int tokens_max) const;

  const crate::Owned<reprise_tokenizer> handle;
  const int size;
  const std::size_t longest;  // bytes of the longest token, as it is stored
  std::vector<TokenId> special_ids;  // ascending
  std::vector<std::string> special_texts;
  SpecialText special_text;
  const TokenId plain_id;  // some token that is one ASCII letter, or 0
  const Result<std::string> plain_text;  // decoded alone
  TokenId prompt_bos = -1;
  TokenId chat_bos = -1;
  mutable PieceCache pieces;  // the texts with a byte for `first` before
};

}  // namespace reprise
