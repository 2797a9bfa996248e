#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "prefix/prefix_trie.h"

namespace reprise {

PrefixIndex::PrefixIndex(BlockAllocator& allocator, BlockAllocator* slots)
    : state_(std::make_unique<State>(allocator, slots)) {}

PrefixIndex::~PrefixIndex() {
  for (const Node* node : state_->by_block) {
    if (node == nullptr) continue;
    state_->allocator.set_indexed(node->block, false);
    state_->allocator.release(node->block);
  }
  for (SlotId id = 0; id < static_cast<SlotId>(state_->by_slot.size()); ++id) {
    if (state_->by_slot[id].parent == nullptr) continue;
    state_->slots->set_indexed(id, false);
    state_->slots->release(id);
  }
}

PrefixHit PrefixIndex::acquire(Tokens prompt, int tokens_max) {
  const auto walk = state_->walk(prompt, tokens_max);
  ++state_->clock;
  PrefixHit hit;
  hit.tokens = walk.tokens;
  hit.matched = walk.matched;
  hit.slot = walk.slot;
  if (hit.slot) {
    state_->slots->retain(*hit.slot);
    state_->by_slot[*hit.slot].stamp = state_->clock;
  }
  for (Node* node : walk.path) {
    state_->touch(node);
    state_->allocator.retain(node->block);
    hit.blocks.push_back(node->block);
  }
  if (walk.tokens < tokens_max) {
    hit.miss_position = walk.tokens;
    hit.miss_reason = walk.evicted ? MissReason::evicted : MissReason::diverged;
    if (walk.tokens < walk.matched) hit.miss_reason = MissReason::no_snapshot;
  }
  return hit;
}

int PrefixIndex::lookup(Tokens prompt, int tokens_max) const {
  return state_->walk(prompt, tokens_max).tokens;
}

void PrefixIndex::publish(Tokens tokens, std::span<BlockId> blocks) {
  CHECK(static_cast<int>(blocks.size()) ==
            blocks_for(static_cast<int>(tokens.size())),
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

bool PrefixIndex::keep_snapshot(Tokens tokens, SlotId slot, RequestId maker) {
  CHECK(state_->slots != nullptr && !tokens.empty());
  const auto [node, rest] = state_->place_of(tokens);
  if (node == nullptr || node->covering(rest) == nullptr) return false;
  ++state_->clock;
  if (const auto there = node->snapshots.find(rest);
      there != node->snapshots.end()) {
    state_->by_slot[there->second].stamp = state_->clock;
    return true;
  }
  state_->attach(node, rest, slot);
  state_->by_slot[slot].position = static_cast<int>(tokens.size());
  state_->by_slot[slot].maker = maker;
  state_->latest_maker = maker;
  return true;
}

void PrefixIndex::forget_snapshot(Tokens tokens, SlotId slot) {
  const auto [node, rest] = state_->place_of(tokens);
  if (node == nullptr) return;
  const auto there = node->snapshots.find(rest);
  if (there == node->snapshots.end() || there->second != slot) return;
  state_->detach(slot);
}

bool PrefixIndex::make_room(int blocks) {
  while (state_->allocator.free_count() < blocks) {
    Node* victim = state_->block_victim();
    if (victim == nullptr) return false;
    state_->evict(victim);
  }
  return true;
}

bool PrefixIndex::make_slot_room(int slots) {
  CHECK(state_->slots != nullptr);
  while (state_->slots->free_count() < slots) {
    const auto victim = state_->slot_victim();
    if (!victim) return false;
    ++state_->snapshot_evictions;
    state_->detach(*victim);
  }
  return true;
}

bool PrefixIndex::holds_snapshot(SlotId id) const {
  return state_->by_slot.at(static_cast<std::size_t>(id)).parent != nullptr;
}

std::size_t PrefixIndex::snapshot_evictions() const {
  return state_->snapshot_evictions;
}

bool PrefixIndex::forget(BlockId id) {
  Node* node = state_->by_block[id];
  if (node == nullptr || !node->children.empty()) return false;
  if (state_->allocator.references(id) > 2) return false;
  state_->evict(node);
  return true;
}

std::vector<BlockId> PrefixIndex::quarantine(Tokens tokens) {
  const auto first =
      tokens.first(std::min<std::size_t>(tokens.size(), kBlockTokens));
  const auto best = Node::nearest(state_->root.children, first);
  // Whoever shares the chain's first block has built on it.
  std::vector<BlockId> dropped;
  if (best.node != nullptr) state_->drop(best.node, dropped);
  return dropped;
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

void PrefixIndex::check_books() const {
  const int live = state_->check(&state_->root);
  CHECK(live == state_->live_count, "{} and {}", live, state_->live_count);
  int cached = 0;
  for (const Node* node : state_->by_block)
    cached += node != nullptr && state_->allocator.references(node->block) == 1;
  CHECK(cached == evictable_count(), "{} and {}", cached, evictable_count());
  if (state_->slots == nullptr) return;
  int kept = 0;
  for (SlotId id = 0; id < static_cast<SlotId>(state_->by_slot.size()); ++id)
    kept += holds_snapshot(id) && state_->slots->references(id) == 1;
  CHECK(kept == state_->slots->cached_count(), "{} and {}", kept,
        state_->slots->cached_count());
}

}  // namespace reprise
