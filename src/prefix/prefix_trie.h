// What a PrefixIndex holds. For the sources of this folder only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "prefix/prefix_index.h"

namespace reprise {

using Tokens = std::span<const TokenId>;
using TokenVector = std::vector<TokenId>;

constexpr BlockId kNoBlock = -1;

int common_prefix(Tokens a, Tokens b);

// What of `tokens` lies in the block that starts at `start`.
Tokens piece_at(Tokens tokens, int start);

struct TokenOrder {
  using is_transparent = void;
  bool operator()(Tokens a, Tokens b) const;
};

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
      return TokenOrder()(of(a), of(b));
    }
  };
  using Children = std::set<std::unique_ptr<Node>, ByTokens>;

  Node* parent = nullptr;
  TokenVector tokens;
  BlockId block = kNoBlock;
  std::uint64_t stamp = 0;  // live: last use; ghost: when it was evicted
  Children children;
  Children ghosts;
  // Snapshots inside the blocks below this node, by the tokens from that
  // block's beginning on: 1 to 256. Some child covers each of them. Keyed here
  // and not in the child, because children that share those tokens share the
  // snapshot.
  std::map<TokenVector, SlotId, TokenOrder> snapshots;

  bool full() const;

  struct Nearest {
    Node* node = nullptr;
    int common = 0;
  };
  // Of an ordered set, the neighbours of `piece` share the most with it.
  static Nearest nearest(const Children& nodes, Tokens piece);

  // The child whose block holds the rows of all of `piece`.
  Node* covering(Tokens piece) const;

  // The longest of the snapshots whose tokens begin `piece`: its tokens and
  // slot, or nullptr.
  const std::pair<const TokenVector, SlotId>* longest_snapshot(
      Tokens piece) const;
};

struct PrefixIndex::State {
  State(BlockAllocator& allocator, BlockAllocator* slots);

  struct Walk {
    std::vector<Node*> path;  // the last may be used in part
    int tokens = 0;           // that can be used
    int matched = 0;          // that are there; more where none can be resumed
    std::optional<SlotId> slot;
    bool evicted = false;  // a ghost shares more with the prompt
  };
  Walk walk(Tokens prompt, int tokens_max) const;

  using Order = std::set<std::pair<std::uint64_t, Node*>>;
  void touch(Node* node);
  Node* insert(Node* parent, Tokens piece, BlockId block);
  void drop_covered(Node* parent, Tokens piece);
  std::unique_ptr<Node> take_out(Node* node);
  void evict(Node* node);
  void forget_ghosts(Node* node);
  // With all below it, and without a ghost.
  void drop(Node* node, std::vector<BlockId>& dropped);
  Node* block_victim() const;

  // Snapshots. The node below whose blocks one at the end of `tokens` stands,
  // nullptr if it is not there, and the tokens from there on.
  struct Place {
    Node* node = nullptr;
    Tokens rest;
  };
  Place place_of(Tokens tokens);
  void attach(Node* parent, Tokens piece, SlotId slot);
  void detach(SlotId slot);
  void detach_uncovered(Node* parent, Tokens tokens);
  std::optional<SlotId> slot_victim() const;
  enum class Worth { superseded, earlier, last };
  Worth worth(SlotId slot) const;
  struct Chains;
  void count_chains(const Node* node, Tokens here, Chains& chains) const;

  int check(const Node* node) const;
  void check_snapshots(const Node* node) const;

  BlockAllocator& allocator;
  BlockAllocator* const slots;  // nullptr: state can be cut anywhere
  Node root;
  std::vector<Node*> by_block;  // live nodes
  // Live nodes without live children, the longest unused first. Those that a
  // sequence holds are in it too, at most one or two for each sequence.
  Order leaves;
  Order ghosts;  // the oldest first, hence a child before its parent
  struct Kept {
    Node* parent = nullptr;               // nullptr: not in the index
    const TokenVector* tokens = nullptr;  // the key in parent->snapshots
    int position = 0;                     // tokens from the beginning
    std::uint64_t stamp = 0;              // last use
    RequestId maker = 0;
  };
  std::vector<Kept> by_slot;
  RequestId latest_maker = 0;
  std::uint64_t clock = 0;
  int live_count = 0;
  std::size_t evictions = 0;
  std::size_t snapshot_evictions = 0;
};

}  // namespace reprise
