#include "text/piece_cache.h"

#include <utility>

namespace reprise {

std::size_t PieceCache::size_of(const Piece& piece) {
  // About what a list node and a map node take beside their contents.
  constexpr std::size_t kNodes = 160;
  return kNodes + piece.text.size() + piece.ids.size() * sizeof(TokenId);
}

std::optional<std::vector<TokenId>> PieceCache::find(std::string_view text) {
  std::lock_guard lock(mutex_);
  const auto found = index_.find(text);
  if (found == index_.end()) return std::nullopt;
  ++hits_;
  pieces_.splice(pieces_.begin(), pieces_, found->second);
  return found->second->ids;
}

void PieceCache::insert(std::string_view text,
                        const std::vector<TokenId>& ids) {
  Pieces fresh;
  fresh.push_back({std::string(text), ids});
  const std::size_t size = size_of(fresh.front());
  if (size > bytes_max_ / 2) return;

  std::lock_guard lock(mutex_);
  if (index_.contains(text)) return;
  while (bytes_ + size > bytes_max_) {
    bytes_ -= size_of(pieces_.back());
    index_.erase(pieces_.back().text);
    pieces_.pop_back();
  }
  pieces_.splice(pieces_.begin(), fresh);
  index_.emplace(pieces_.front().text, pieces_.begin());
  bytes_ += size;
}

std::size_t PieceCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t PieceCache::hits() const {
  std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace reprise
