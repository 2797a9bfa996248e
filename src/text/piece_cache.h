// A bounded memory of what was tokenized: text → ids, the least recently used
// is forgotten first. Safe from any thread; nothing is computed under its lock.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "request/request.h"

namespace reprise {

class PieceCache {
 public:
  // `bytes_max` bounds texts, ids and bookkeeping together. A piece that takes
  // more than half of it is not kept.
  explicit PieceCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::optional<std::vector<TokenId>> find(std::string_view text);

  // Has no effect if the text is there already.
  void insert(std::string_view text, const std::vector<TokenId>& ids);

  std::size_t bytes() const;
  std::size_t hits() const;

 private:
  struct Piece {
    std::string text;
    std::vector<TokenId> ids;
  };
  using Pieces = std::list<Piece>;

  static std::size_t size_of(const Piece& piece);

  const std::size_t bytes_max_;

  mutable std::mutex mutex_;
  Pieces pieces_;  // most recently used first
  // Views of the pieces' own texts; a list does not move its elements.
  std::unordered_map<std::string_view, Pieces::iterator> index_;
  std::size_t bytes_ = 0;
  std::size_t hits_ = 0;
};

}  // namespace reprise
