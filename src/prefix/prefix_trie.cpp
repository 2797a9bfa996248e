#include "prefix/prefix_trie.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"

namespace reprise {
namespace {

// Nodes without a block that are remembered, 1 KiB each.
constexpr std::size_t kGhostsMax = 4096;

}  // namespace

int common_prefix(Tokens a, Tokens b) {
  const auto n = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(n);
  const auto at = std::mismatch(a.begin(), end, b.begin()).first;
  return static_cast<int>(at - a.begin());
}

Tokens piece_at(Tokens tokens, int start) {
  const auto rest = tokens.subspan(static_cast<std::size_t>(start));
  return rest.first(std::min<std::size_t>(rest.size(), kBlockTokens));
}

bool TokenOrder::operator()(Tokens a, Tokens b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

bool PrefixIndex::Node::full() const {
  return tokens.size() == kBlockTokens;
}

PrefixIndex::Node::Nearest PrefixIndex::Node::nearest(const Children& nodes,
                                                      Tokens piece) {
  Nearest best;
  const auto at = nodes.lower_bound(piece);
  if (at != nodes.end())
    best = {at->get(), common_prefix((*at)->tokens, piece)};
  if (at != nodes.begin()) {
    Node* before = std::prev(at)->get();
    const int common = common_prefix(before->tokens, piece);
    if (common > best.common) best = {before, common};
  }
  return best.common > 0 ? best : Nearest{};
}

PrefixIndex::Node* PrefixIndex::Node::covering(Tokens piece) const {
  const Nearest best = nearest(children, piece);
  const bool covered = best.common == static_cast<int>(piece.size());
  return covered ? best.node : nullptr;
}

PrefixIndex::State::State(BlockAllocator& allocator, BlockAllocator* slots)
    : allocator(allocator),
      slots(slots),
      by_block(static_cast<std::size_t>(allocator.block_count())),
      by_slot(slots == nullptr
                  ? 0
                  : static_cast<std::size_t>(slots->block_count())) {}

PrefixIndex::State::Walk PrefixIndex::State::walk(Tokens prompt,
                                                  int tokens_max) const {
  CHECK(
      tokens_max >= 0 && static_cast<std::size_t>(tokens_max) <= prompt.size(),
      "{} of {}", tokens_max, prompt.size());
  const Tokens wanted = prompt.first(static_cast<std::size_t>(tokens_max));
  Walk result;
  std::size_t usable_nodes = 0;
  const Node* at = &root;
  while (result.matched < tokens_max) {
    const Tokens piece = piece_at(wanted, result.matched);
    if (const auto* kept = at->longest_snapshot(piece)) {
      usable_nodes = result.path.size() + 1;
      result.tokens = result.matched + static_cast<int>(kept->first.size());
      result.slot = kept->second;
    }
    const auto best = Node::nearest(at->children, piece);
    if (best.node != nullptr) result.path.push_back(best.node);
    result.matched += best.common;
    if (best.common < static_cast<int>(piece.size())) {
      const auto lost = Node::nearest(at->ghosts, piece);
      result.evicted = lost.common > best.common;
      break;
    }
    at = best.node;
  }
  if (slots == nullptr)
    result.tokens = result.matched;
  else
    result.path.resize(usable_nodes);
  return result;
}

void PrefixIndex::State::touch(Node* node) {
  const bool leaf = leaves.erase({node->stamp, node}) > 0;
  node->stamp = clock;
  if (leaf) leaves.insert({node->stamp, node});
}

PrefixIndex::Node* PrefixIndex::State::insert(Node* parent, Tokens piece,
                                              BlockId block) {
  CHECK(by_block[block] == nullptr, "block {} is in the index", block);
  std::unique_ptr<Node> owned;
  if (const auto ghost = parent->ghosts.find(piece);
      ghost != parent->ghosts.end()) {
    owned = std::move(parent->ghosts.extract(ghost).value());
    ghosts.erase({owned->stamp, owned.get()});
  } else {
    owned = std::make_unique<Node>();
    owned->parent = parent;
    owned->tokens.assign(piece.begin(), piece.end());
  }
  Node* node = owned.get();
  node->block = block;
  node->stamp = clock;
  allocator.retain(block);
  allocator.set_indexed(block, true);
  by_block[block] = node;
  ++live_count;
  leaves.erase({parent->stamp, parent});
  leaves.insert({node->stamp, node});
  parent->children.insert(std::move(owned));
  drop_covered(parent, piece);
  return node;
}

// Shorter nodes whose tokens begin `piece`: a block that holds more replaces
// them. A held one stays, and goes as the least used one day.
void PrefixIndex::State::drop_covered(Node* parent, Tokens piece) {
  auto& children = parent->children;
  while (!piece.empty()) {
    auto at = children.lower_bound(piece);
    if (at == children.begin()) return;
    Node* shorter = std::prev(at)->get();
    const int common = common_prefix(shorter->tokens, piece);
    piece = piece.first(static_cast<std::size_t>(common));
    // A node of exactly this length may hide behind one that only shares it.
    const auto exact = children.find(piece);
    if (exact == children.end()) continue;
    shorter = exact->get();
    if (allocator.references(shorter->block) == 1) take_out(shorter);
  }
}

// Out of the live nodes; the index's reference is given up.
std::unique_ptr<PrefixIndex::Node> PrefixIndex::State::take_out(Node* node) {
  CHECK(node->children.empty(), "block {} has children", node->block);
  CHECK(node->snapshots.empty(), "block {} has snapshots below", node->block);
  Node* parent = node->parent;
  const auto at = parent->children.find(Tokens(node->tokens));
  auto owned = std::move(parent->children.extract(at).value());
  leaves.erase({node->stamp, node});
  if (parent != &root && parent->children.empty())
    leaves.insert({parent->stamp, parent});
  by_block[node->block] = nullptr;
  allocator.set_indexed(node->block, false);
  allocator.release(node->block);
  node->block = kNoBlock;
  --live_count;
  detach_uncovered(parent, node->tokens);
  return owned;
}

// Of the leaves that nobody else holds, the longest unused; where snapshots
// are needed to use a block, first one that has none.
PrefixIndex::Node* PrefixIndex::State::block_victim() const {
  Node* oldest = nullptr;
  for (const auto& [stamp, node] : leaves) {
    if (allocator.references(node->block) > 1) continue;
    if (slots == nullptr) return node;
    if (oldest == nullptr) oldest = node;
    if (node->parent->longest_snapshot(node->tokens) == nullptr) return node;
  }
  return oldest;
}

void PrefixIndex::State::drop(Node* node, std::vector<BlockId>& dropped) {
  while (!node->children.empty()) drop(node->children.begin()->get(), dropped);
  dropped.push_back(node->block);
  const auto gone = take_out(node);
  // What was evicted below it is forgotten with it.
  forget_ghosts(gone.get());
}

void PrefixIndex::State::forget_ghosts(Node* node) {
  for (const auto& ghost : node->ghosts) {
    forget_ghosts(ghost.get());
    ghosts.erase({ghost->stamp, ghost.get()});
  }
  node->ghosts.clear();
}

void PrefixIndex::State::evict(Node* node) {
  auto owned = take_out(node);
  ++evictions;
  node->stamp = ++clock;
  ghosts.insert({node->stamp, node});
  node->parent->ghosts.insert(std::move(owned));
  if (ghosts.size() <= kGhostsMax) return;
  Node* oldest = ghosts.begin()->second;
  CHECK(oldest->ghosts.empty(), "a ghost went before those below it");
  ghosts.erase(ghosts.begin());
  auto& siblings = oldest->parent->ghosts;
  siblings.erase(siblings.find(Tokens(oldest->tokens)));
}

// Returns how many live nodes lie below `node`.
int PrefixIndex::State::check(const Node* node) const {
  int count = 0;
  for (const auto& child : node->children) {
    CHECK(child->parent == node && (node == &root || node->full()));
    CHECK(!child->tokens.empty() && child->tokens.size() <= kBlockTokens);
    CHECK(child->block != kNoBlock && by_block[child->block] == child.get());
    const int held = allocator.references(child->block);
    CHECK(held >= 1, "block {} is in the index and free", child->block);
    CHECK(node == &root || held == 1 || allocator.references(node->block) > 1,
          "block {} is held, {} before it is not", child->block, node->block);
    CHECK(child->children.empty() ==
          leaves.contains({child->stamp, child.get()}));
    count += 1 + check(child.get());
  }
  check_snapshots(node);
  for (const auto& ghost : node->ghosts) {
    CHECK(ghost->block == kNoBlock && ghost->children.empty());
    CHECK(ghosts.contains({ghost->stamp, ghost.get()}));
    check(ghost.get());
  }
  return count;
}

}  // namespace reprise
