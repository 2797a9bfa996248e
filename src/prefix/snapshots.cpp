// The snapshots that an index keeps: where they stand, and which of them goes
// first when a slot is needed.
#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "prefix/prefix_trie.h"

namespace reprise {
namespace {

bool begins(Tokens prefix, Tokens tokens) {
  return common_prefix(prefix, tokens) == static_cast<int>(prefix.size());
}

}  // namespace

// Whatever key begins `piece` also begins every key between itself and
// `piece`: so the one before `piece` either begins it or shares with it all
// that any such key can have.
const std::pair<const TokenVector, SlotId>* PrefixIndex::Node::longest_snapshot(
    Tokens piece) const {
  while (!piece.empty()) {
    auto at = snapshots.upper_bound(piece);
    if (at == snapshots.begin()) return nullptr;
    --at;
    const int common = common_prefix(at->first, piece);
    if (common == static_cast<int>(at->first.size())) return &*at;
    piece = piece.first(static_cast<std::size_t>(common));
  }
  return nullptr;
}

PrefixIndex::State::Place PrefixIndex::State::place_of(Tokens tokens) {
  Place place{&root, tokens};
  while (place.node != nullptr && place.rest.size() > kBlockTokens) {
    place.node = place.node->covering(place.rest.first(kBlockTokens));
    place.rest = place.rest.subspan(kBlockTokens);
  }
  return place;
}

void PrefixIndex::State::attach(Node* parent, Tokens piece, SlotId slot) {
  CHECK(by_slot[slot].parent == nullptr, "slot {} is in the index", slot);
  const auto [at, fresh] =
      parent->snapshots.emplace(TokenVector(piece.begin(), piece.end()), slot);
  CHECK(fresh);
  slots->retain(slot);
  slots->set_indexed(slot, true);
  by_slot[slot] = {
      .parent = parent, .tokens = &at->first, .position = 0, .stamp = clock};
}

void PrefixIndex::State::detach(SlotId slot) {
  Kept& kept = by_slot[slot];
  CHECK(kept.parent != nullptr, "slot {} is not in the index", slot);
  kept.parent->snapshots.erase(
      kept.parent->snapshots.find(Tokens(*kept.tokens)));
  kept = {};
  slots->set_indexed(slot, false);
  slots->release(slot);
}

// A child with these tokens has gone: what it alone covered goes too.
void PrefixIndex::State::detach_uncovered(Node* parent, Tokens tokens) {
  std::vector<SlotId> lost;
  for (const auto& [key, slot] : parent->snapshots)
    if (begins(key, tokens) && parent->covering(key) == nullptr)
      lost.push_back(slot);
  for (const SlotId slot : lost) detach(slot);
}

// The chains of blocks that go on below `node` from tokens that begin with
// `here`: how many there are (counting stops at two), and the first snapshot
// on one of them, if it has any.
struct PrefixIndex::State::Chains {
  int count = 0;
  SlotId next = kNoSlot;
};

void PrefixIndex::State::count_chains(const Node* node, Tokens here,
                                      Chains& chains) const {
  // Keys that this one begins follow it; those that such a key begins are
  // further along on its chain.
  Tokens last;
  const auto& keys = node->snapshots;
  for (auto at = keys.upper_bound(here);
       at != keys.end() && begins(here, at->first) && chains.count < 2; ++at) {
    if (!last.empty() && begins(last, at->first)) continue;
    last = at->first;
    ++chains.count;
    chains.next = at->second;
  }
  const auto& children = node->children;
  for (auto at = children.lower_bound(here);
       at != children.end() && begins(here, (*at)->tokens) && chains.count < 2;
       ++at) {
    const Node& child = **at;
    const auto* inside = node->longest_snapshot(child.tokens);
    if (inside != nullptr && inside->first.size() > here.size()) continue;
    const int before = chains.count;
    count_chains(&child, {}, chains);
    if (chains.count > before || child.tokens.size() == here.size()) continue;
    ++chains.count;
    chains.next = kNoSlot;
  }
}

// How much would be lost with it. Where exactly one chain goes on from here, to
// another snapshot in the same stretch of kSnapshotTokens, whoever would resume
// here can resume there, but for one who leaves that chain. What one request
// keeps (before its prompt's end, there, at its own end) serves different ones
// who come next; so of its own snapshots the earlier ones are worth more while
// it is the latest that kept any.
PrefixIndex::State::Worth PrefixIndex::State::worth(SlotId slot) const {
  const Kept& kept = by_slot[slot];
  Worth worth = Worth::last;
  for (SlotId at = slot;;) {
    Chains chains;
    count_chains(by_slot[at].parent, *by_slot[at].tokens, chains);
    if (chains.count != 1 || chains.next == kNoSlot) return worth;
    at = chains.next;
    if (by_slot[at].position / kSnapshotTokens !=
        kept.position / kSnapshotTokens)
      return worth;
    if (by_slot[at].maker != kept.maker) return Worth::superseded;
    if (kept.maker != latest_maker) worth = Worth::earlier;
  }
}

// The least worth, of equals the longest unused.
std::optional<SlotId> PrefixIndex::State::slot_victim() const {
  std::optional<SlotId> best;
  std::pair<Worth, std::uint64_t> least;
  for (SlotId slot = 0; slot < static_cast<SlotId>(by_slot.size()); ++slot) {
    if (by_slot[slot].parent == nullptr || slots->references(slot) > 1)
      continue;
    const std::pair rank(worth(slot), by_slot[slot].stamp);
    if (best && rank >= least) continue;
    best = slot;
    least = rank;
  }
  return best;
}

void PrefixIndex::State::check_snapshots(const Node* node) const {
  for (const auto& [tokens, slot] : node->snapshots) {
    CHECK(slots != nullptr && node->covering(tokens) != nullptr,
          "snapshot {} has no rows", slot);
    CHECK(by_slot[slot].parent == node && *by_slot[slot].tokens == tokens,
          "snapshot {} is not where it should be", slot);
    CHECK(slots->references(slot) >= 1, "slot {} is in the index and free",
          slot);
  }
}

}  // namespace reprise
