#include "prefix/prefix_index.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace reprise {
namespace {

using Tokens = std::span<const TokenId>;

// Nodes without a block that are remembered, 1 KiB each.
constexpr std::size_t kGhostsMax = 4096;
constexpr BlockId kNoBlock = -1;

int common_prefix(Tokens a, Tokens b) {
  const auto n = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(n);
  const auto at = std::mismatch(a.begin(), end, b.begin()).first;
  return static_cast<int>(at - a.begin());
}

// What of `tokens` lies in the block that starts at `start`.
Tokens piece_at(Tokens tokens, int start) {
  const auto rest = tokens.subspan(static_cast<std::size_t>(start));
  return rest.first(std::min<std::size_t>(rest.size(), kBlockTokens));
}

}  // namespace

// A live node names a block; its parent is live too. A ghost was evicted: it
// has no block, and nothing below it has. Ghosts are kept apart so that they
// never stand between a prompt and its nearest live neighbours.
struct PrefixIndex::Node {
  struct ByTokens {
    using is_transparent = void;
    static Tokens of(const std::unique_ptr<Node>& node) { return node->tokens; }
    static Tokens of(Tokens tokens) { return tokens; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      const Tokens x = of(a), y = of(b);
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(),
                                          y.end());
    }
  };
  using Children = std::set<std::unique_ptr<Node>, ByTokens>;

  Node* parent = nullptr;
  std::vector<TokenId> tokens;
  BlockId block = kNoBlock;
  std::uint64_t stamp = 0;  // live: last use; ghost: when it was evicted
  Children children;
  Children ghosts;

  bool full() const { return tokens.size() == kBlockTokens; }

  struct Nearest {
    Node* node = nullptr;
    int common = 0;
  };
  // Of an ordered set, the neighbours of `piece` share the most with it.
  static Nearest nearest(const Children& nodes, Tokens piece) {
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

  // The child whose block holds the rows of all of `piece`.
  Node* covering(Tokens piece) const {
    const Nearest best = nearest(children, piece);
    const bool covered = best.common == static_cast<int>(piece.size());
    return covered ? best.node : nullptr;
  }
};

struct PrefixIndex::State {
  explicit State(BlockAllocator& allocator)
      : allocator(allocator),
        by_block(static_cast<std::size_t>(allocator.block_count())) {}

  struct Walk {
    std::vector<Node*> path;  // the last may be used in part
    int tokens = 0;
    bool evicted = false;  // a ghost shares more with the prompt
  };
  Walk walk(Tokens prompt, int tokens_max) const;

  using Order = std::set<std::pair<std::uint64_t, Node*>>;
  void touch(Node* node);
  Node* insert(Node* parent, Tokens piece, BlockId block);
  void drop_covered(Node* parent, Tokens piece);
  std::unique_ptr<Node> take_out(Node* node);
  void evict(Node* node);
  int check(const Node* node) const;

  BlockAllocator& allocator;
  Node root;
  std::vector<Node*> by_block;  // live nodes
  // Live nodes without live children, the longest unused first. Those that a
  // sequence holds are in it too, at most one or two for each sequence.
  Order leaves;
  Order ghosts;  // the oldest first, hence a child before its parent
  std::uint64_t clock = 0;
  int live_count = 0;
  std::size_t evictions = 0;
};

PrefixIndex::State::Walk PrefixIndex::State::walk(Tokens prompt,
                                                  int tokens_max) const {
  CHECK(
      tokens_max >= 0 && static_cast<std::size_t>(tokens_max) <= prompt.size(),
      "{} of {}", tokens_max, prompt.size());
  const Tokens wanted = prompt.first(static_cast<std::size_t>(tokens_max));
  Walk result;
  const Node* at = &root;
  while (result.tokens < tokens_max) {
    const Tokens piece = piece_at(wanted, result.tokens);
    const auto best = Node::nearest(at->children, piece);
    if (best.node != nullptr) result.path.push_back(best.node);
    result.tokens += best.common;
    if (best.common < static_cast<int>(piece.size())) {
      const auto lost = Node::nearest(at->ghosts, piece);
      result.evicted = lost.common > best.common;
      break;
    }
    at = best.node;
  }
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
  return owned;
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

PrefixIndex::PrefixIndex(BlockAllocator& allocator)
    : state_(std::make_unique<State>(allocator)) {}

PrefixIndex::~PrefixIndex() {
  for (const Node* node : state_->by_block) {
    if (node == nullptr) continue;
    state_->allocator.set_indexed(node->block, false);
    state_->allocator.release(node->block);
  }
}

PrefixHit PrefixIndex::acquire(Tokens prompt, int tokens_max) {
  const auto walk = state_->walk(prompt, tokens_max);
  ++state_->clock;
  PrefixHit hit;
  hit.tokens = walk.tokens;
  for (Node* node : walk.path) {
    state_->touch(node);
    state_->allocator.retain(node->block);
    hit.blocks.push_back(node->block);
  }
  if (walk.tokens < tokens_max) {
    hit.miss_position = walk.tokens;
    hit.miss_reason = walk.evicted ? MissReason::evicted : MissReason::diverged;
  }
  return hit;
}

int PrefixIndex::lookup(Tokens prompt, int tokens_max) const {
  return state_->walk(prompt, tokens_max).tokens;
}

void PrefixIndex::publish(Tokens tokens, std::span<BlockId> blocks) {
  CHECK(blocks.size() == (tokens.size() + kBlockTokens - 1) / kBlockTokens,
        "{} blocks for {} tokens", blocks.size(), tokens.size());
  ++state_->clock;
  Node* at = &state_->root;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Tokens piece = piece_at(tokens, static_cast<int>(i) * kBlockTokens);
    Node* node = at->covering(piece);
    if (node == nullptr) {
      node = state_->insert(at, piece, blocks[i]);
    } else {
      state_->touch(node);
      // Retain first: it may be the very same block.
      state_->allocator.retain(node->block);
      state_->allocator.release(blocks[i]);
      blocks[i] = node->block;
    }
    at = node;
  }
}

bool PrefixIndex::make_room(int blocks) {
  auto& leaves = state_->leaves;
  while (state_->allocator.free_count() < blocks) {
    const auto at =
        std::find_if(leaves.begin(), leaves.end(), [&](const auto& leaf) {
          return state_->allocator.references(leaf.second->block) == 1;
        });
    if (at == leaves.end()) return false;
    state_->evict(at->second);
  }
  return true;
}

bool PrefixIndex::forget(BlockId id) {
  Node* node = state_->by_block[id];
  if (node == nullptr || !node->children.empty()) return false;
  if (state_->allocator.references(id) > 2) return false;
  state_->evict(node);
  return true;
}

bool PrefixIndex::contains(BlockId id) const {
  return state_->by_block[id] != nullptr;
}

int PrefixIndex::evictable_count() const {
  return state_->allocator.cached_count();
}

int PrefixIndex::cached_count() const {
  return state_->live_count;
}

std::size_t PrefixIndex::evictions() const {
  return state_->evictions;
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
  for (const auto& ghost : node->ghosts) {
    CHECK(ghost->block == kNoBlock && ghost->children.empty());
    CHECK(ghosts.contains({ghost->stamp, ghost.get()}));
    check(ghost.get());
  }
  return count;
}

void PrefixIndex::check_books() const {
  const int live = state_->check(&state_->root);
  CHECK(live == state_->live_count, "{} and {}", live, state_->live_count);
  int cached = 0;
  for (const Node* node : state_->by_block)
    cached += node != nullptr && state_->allocator.references(node->block) == 1;
  CHECK(cached == evictable_count(), "{} and {}", cached, evictable_count());
  CHECK(state_->ghosts.size() <= kGhostsMax);
}

}  // namespace reprise
