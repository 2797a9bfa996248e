// Which prefixes have their state in memory: a trie of blocks. A node is one
// block and the tokens whose rows it holds (256, or fewer at the end of a
// chain); its parent is the block before. Children are ordered by their
// tokens, so the longest common prefix with a prompt is found beside the
// place where the prompt would stand. Tokens are compared, never only hashes.
//
// Models with state that cannot be cut back (recurrences) can be resumed only
// where a snapshot was kept. For them the index also has slots, each at one
// position of a chain, and what a prompt can use ends at the last of them.
//
// The index holds one reference on each of its blocks; a sequence that uses a
// block holds its own. A node may be evicted when only the index holds its
// block and it has no children: suffixes go before prefixes, the longest
// unused first. What was evicted is remembered for a while without its block,
// so that a later miss can say `evicted` and not `diverged`.
//
// Not thread-safe: the engine's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "prefix/block_allocator.h"
#include "request/event.h"
#include "request/request.h"

namespace reprise {

struct PrefixHit {
  // blocks[i] holds rows of tokens [256 i, 256 (i + 1)), all references taken
  // by the hit. The last may be covered only in part: tokens % 256 rows of it
  // are the prompt's, and it must be copied before rows are added.
  std::vector<BlockId> blocks;
  int tokens = 0;  // rows that can be used
  // Rows that are there. More than `tokens` where the model needs a snapshot
  // and the last one stands before.
  int matched = 0;
  std::optional<SlotId> slot;  // state at `tokens`, its reference taken
  MissReason miss_reason = MissReason::none;
  int miss_position = 0;
};

class PrefixIndex {
 public:
  // `slots`: for a model that keeps snapshots. Both outlive the index.
  explicit PrefixIndex(BlockAllocator& allocator,
                       BlockAllocator* slots = nullptr);
  ~PrefixIndex();

  // The longest usable prefix of `prompt`, at most tokens_max. References are
  // taken: the caller releases each of hit.blocks. miss_reason is none if the
  // hit has tokens_max tokens.
  PrefixHit acquire(std::span<const TokenId> prompt, int tokens_max);

  // How many tokens acquire() would find; nothing is taken or touched.
  int lookup(std::span<const TokenId> prompt, int tokens_max) const;

  // Makes the state of `tokens` findable: blocks[i] holds rows of tokens
  // [256 i, ...), all of them committed, ceil(tokens / 256) blocks. Where the
  // index has a block with the same tokens already, the caller's block is
  // swapped for it in `blocks`: the caller's reference moves along, so that
  // equal prefixes are held once. A shorter node that the new one covers is
  // dropped when nobody else holds it.
  // A partly filled last block: its owner must not write to it afterwards.
  void publish(std::span<const TokenId> tokens, std::span<BlockId> blocks);

  // `slot` holds the snapshot at tokens.size() > 0, whose rows were published:
  // from now on a hit can end there. The index takes a reference; nothing
  // happens where it has one already. False: the rows are not there. `maker`:
  // who computed it.
  bool keep_snapshot(std::span<const TokenId> tokens, SlotId slot,
                     RequestId maker);

  // Gives up snapshots that only the index holds until so many slots are
  // free: first those that one of another maker further along the chain
  // supersedes, then those that one of the same maker does, but for one in
  // 4,096 tokens and those where chains part; then all others. Of equals the
  // longest unused. False: not possible.
  bool make_slot_room(int slots);
  bool holds_snapshot(SlotId id) const;

  // Gives up `slot` if it is kept at exactly these tokens.
  void forget_snapshot(std::span<const TokenId> tokens, SlotId slot);

  std::size_t snapshot_evictions() const;  // since the start

  // Evicts until the allocator has `blocks` free ones. False: not possible,
  // although all that could be evicted is.
  bool make_room(int blocks);

  // Gives this block up if it ends its chain and nobody but the index and
  // the caller holds it. False: not in the index, or needed there.
  bool forget(BlockId id);

  // Drops every node that holds rows of `tokens`, with all below it. Who holds
  // their blocks keeps them, and must not publish them again.
  std::vector<BlockId> quarantine(std::span<const TokenId> tokens);

  bool contains(BlockId id) const;

  // Blocks that make_room could free at most. Exact as long as whoever holds
  // a block holds those before it, as acquire() and publish() give them out.
  int evictable_count() const;
  int cached_count() const;       // blocks that the index holds
  std::size_t evictions() const;  // blocks evicted since the start

  // CHECKs the books: every node's block is referenced, parents outlive
  // children, counts agree. For idle moments and tests.
  void check_books() const;

 private:
  struct Node;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
