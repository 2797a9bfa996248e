#include "scheduler/block_books.h"

#include <utility>

#include "base/check.h"

namespace reprise {

BlockBooks::BlockBooks(int block_count, int slot_count)
    : allocator_(block_count),
      slots_(slot_count > 0 ? std::optional<BlockAllocator>(slot_count)
                            : std::nullopt),
      index_(allocator_, slots_ ? &*slots_ : nullptr) {}

std::optional<BlockId> BlockBooks::take() {
  if (allocator_.free_count() == 0 && !index_.make_room(1)) return std::nullopt;
  return allocator_.allocate();
}

// The next row falls into a block that somebody else reads too.
bool BlockBooks::tail_shared(const Sequence& s) const {
  return s.length % kBlockTokens != 0 &&
         allocator_.references(s.blocks[s.length / kBlockTokens]) > 1;
}

BlockBooks::Admission BlockBooks::admit(Sequence& s, int outstanding,
                                        bool alone) {
  CHECK(s.length == 0 && s.blocks.empty() && s.spare.empty());
  Admission result;
  // One token must be evaluated to have logits.
  if (s.caches()) result.hit = index_.acquire(s.tokens, s.hit_max());
  s.length = result.hit.tokens;
  s.blocks = result.hit.blocks;
  s.slot = result.hit.slot.value_or(kNoSlot);

  const int room = allocator_.free_count() + index_.evictable_count();
  result.admitted = alone || this->outstanding(s) <= room - outstanding;
  if (!result.admitted) {
    for (const BlockId id : s.blocks) allocator_.release(id);
    if (s.slot != kNoSlot) slots_->release(std::exchange(s.slot, kNoSlot));
    s.blocks.clear();
    s.length = 0;
    return result;
  }
  // Where the prompt leaves a chain that is there, others may leave it too.
  const int branch = result.hit.matched / kQuantumTokens * kQuantumTokens;
  if (slots_) s.add_stop(branch);
  const int first_end = std::min(s.length + kQuantumTokens, s.rows_max());
  int spares = blocks_for(first_end) - static_cast<int>(s.blocks.size()) +
               (tail_shared(s) ? 1 : 0);
  for (; spares > 0; --spares) {
    const auto id = take();
    if (!id) break;  // alone in a pool that is just large enough
    s.spare.push_back(*id);
  }
  return result;
}

int BlockBooks::outstanding(const Sequence& s) const {
  const int have = static_cast<int>(s.blocks.size() + s.spare.size());
  const int need = blocks_for(s.rows_promised) + (tail_shared(s) ? 1 : 0);
  return std::max(0, need - have);
}

bool BlockBooks::reserve(Sequence& s, int end, Reservation& r) {
  if (r.taken.empty()) r.blocks_before = static_cast<int>(s.blocks.size());
  const auto fresh = [&]() -> std::optional<BlockId> {
    if (s.spare.empty()) return take();
    const BlockId id = s.spare.back();
    s.spare.pop_back();
    ++r.from_spare;
    return id;
  };
  const auto add = [&](std::optional<BlockId> id) {
    if (id) r.taken.push_back(*id);
    return id.has_value();
  };

  r.end = s.length;
  if (tail_shared(s)) {
    if (!add(fresh())) return false;
    r.shared_tail =
        std::exchange(s.blocks[s.length / kBlockTokens], r.taken.back());
  }
  while (static_cast<int>(s.blocks.size()) < blocks_for(end)) {
    if (!add(fresh())) break;
    s.blocks.push_back(r.taken.back());
  }
  r.end = std::min(end, static_cast<int>(s.blocks.size()) * kBlockTokens);
  if (slots_ && r.end > s.length) take_slot(r);
  return r.end == end;
}

std::optional<BlockCopy> BlockBooks::copy_of(const Sequence& s,
                                             const Reservation& r) const {
  if (!r.shared_tail) return std::nullopt;
  return BlockCopy{.from = *r.shared_tail,
                   .to = s.blocks[s.length / kBlockTokens],
                   .rows = s.length % kBlockTokens};
}

void BlockBooks::undo(Sequence& s, Reservation& r) {
  s.blocks.resize(static_cast<std::size_t>(r.blocks_before));
  if (r.shared_tail) s.blocks[s.length / kBlockTokens] = *r.shared_tail;
  for (std::size_t i = r.taken.size(); i-- > 0;) {
    if (static_cast<int>(i) < r.from_spare) {
      s.spare.push_back(r.taken[i]);
    } else {
      allocator_.release(r.taken[i]);
    }
  }
  if (r.slot != kNoSlot) slots_->release(r.slot);
  r = {};
}

void BlockBooks::commit(Sequence& s, Reservation& r, int end) {
  CHECK(end > s.length && end <= r.end, "{} to {} of {}", s.length, end, r.end);
  if (r.shared_tail) allocator_.release(*r.shared_tail);
  const int full_before = s.length / kBlockTokens;
  s.length = end;
  s.length_most = std::max(s.length_most, end);
  if (s.caches() && end / kBlockTokens > full_before)
    publish(s, end / kBlockTokens * kBlockTokens);
  if (s.slot != kNoSlot) slots_->release(s.slot);
  s.slot = r.slot;
  if (s.progressed()) {
    for (const BlockId id : s.spare) allocator_.release(id);
    s.spare.clear();
  }
  r = {};
  if (slots_ && s.caches() && s.snapshot_due(end) && publish_tail(s))
    keep_snapshot(s);
}

void BlockBooks::publish(Sequence& s, int rows) {
  index_.publish(
      std::span(s.tokens).first(static_cast<std::size_t>(rows)),
      std::span(s.blocks).first(static_cast<std::size_t>(blocks_for(rows))));
}

bool BlockBooks::publish_tail(Sequence& s) {
  if (s.length % kBlockTokens == 0 || tail_shared(s)) return true;
  const auto id = take();
  if (!id) return false;
  s.spare.push_back(*id);
  publish(s, s.length);
  return true;
}

// Never short: running sequences hold two each at most, and there are as
// many; what else is taken is the index's alone.
void BlockBooks::take_slot(Reservation& r) {
  if (r.slot != kNoSlot) return;
  CHECK(slots_->free_count() > 0 || index_.make_slot_room(1),
        "every slot is held");
  r.slot = *slots_->allocate();
}

void BlockBooks::keep_snapshot(Sequence& s) {
  if (!slots_ || s.slot == kNoSlot) return;
  const auto tokens =
      std::span(s.tokens).first(static_cast<std::size_t>(s.length));
  if (index_.keep_snapshot(tokens, s.slot, s.id))
    s.kept.push_back({.position = s.length, .slot = s.slot});
}

void BlockBooks::forget_snapshots(Sequence& s) {
  for (const auto& [position, slot] : s.kept)
    index_.forget_snapshot(
        std::span(s.tokens).first(static_cast<std::size_t>(position)), slot);
}

bool BlockBooks::reclaim_tail(Sequence& s) {
  return tail_shared(s) && index_.forget(s.blocks[s.length / kBlockTokens]);
}

std::vector<BlockId> BlockBooks::quarantine(std::span<const TokenId> tokens) {
  return index_.quarantine(tokens);
}

void BlockBooks::leave(Sequence& s, Leave how) {
  if (how == Leave::published && s.caches() && s.length > 0) {
    publish(s, s.length);
    keep_snapshot(s);
  }
  if (how == Leave::distrusted) {
    forget_snapshots(s);
    // What it computed, from the end backwards, as far as nobody else built on
    // it: what others went on from and finished is believed.
    const auto own = static_cast<std::size_t>(s.length > s.rows_reused
                                                  ? s.rows_reused / kBlockTokens
                                                  : blocks_for(s.rows_reused));
    for (std::size_t i = s.blocks.size(); i-- > own;)
      if (index_.contains(s.blocks[i]) && !index_.forget(s.blocks[i])) break;
  }
  for (const BlockId id : s.blocks) allocator_.release(id);
  for (const BlockId id : s.spare) allocator_.release(id);
  if (s.slot != kNoSlot) slots_->release(std::exchange(s.slot, kNoSlot));
  s.blocks.clear();
  s.spare.clear();
  s.kept.clear();
  s.length = 0;
}

void BlockBooks::check(const std::vector<const Sequence*>& sequences) const {
  index_.check_books();
  std::vector<int> holders(static_cast<std::size_t>(allocator_.block_count()),
                           0);
  for (const Sequence* s : sequences) {
    CHECK(static_cast<int>(s->blocks.size()) >= blocks_for(s->length),
          "request {}: {} blocks for {} rows", s->id, s->blocks.size(),
          s->length);
    for (const BlockId id : s->blocks) ++holders[id];
    for (const BlockId id : s->spare) ++holders[id];
  }
  int held = 0;
  for (BlockId id = 0; id < allocator_.block_count(); ++id) {
    const int all = holders[id] + (index_.contains(id) ? 1 : 0);
    CHECK(all == allocator_.references(id),
          "block {} has {} holders and {} references", id, all,
          allocator_.references(id));
    held += holders[id] > 0 ? 1 : 0;
  }
  CHECK(allocator_.free_count() + index_.evictable_count() + held ==
            allocator_.block_count(),
        "{} free + {} cached + {} held = {}", allocator_.free_count(),
        index_.evictable_count(), held, allocator_.block_count());
  if (slots_) check_slots(sequences);
}

void BlockBooks::check_slots(
    const std::vector<const Sequence*>& sequences) const {
  std::vector<int> holders(static_cast<std::size_t>(slots_->block_count()), 0);
  for (const Sequence* s : sequences) {
    CHECK((s->slot == kNoSlot) == (s->length == 0),
          "request {} has {} rows and slot {}", s->id, s->length, s->slot);
    if (s->slot != kNoSlot) ++holders[s->slot];
  }
  int held = 0;
  for (SlotId id = 0; id < slots_->block_count(); ++id) {
    const int all = holders[id] + (index_.holds_snapshot(id) ? 1 : 0);
    CHECK(all == slots_->references(id),
          "slot {} has {} holders and {} references", id, all,
          slots_->references(id));
    held += holders[id] > 0 ? 1 : 0;
  }
  CHECK(slots_->free_count() + slots_->cached_count() + held ==
            slots_->block_count(),
        "{} free + {} cached + {} held = {} slots", slots_->free_count(),
        slots_->cached_count(), held, slots_->block_count());
}

}  // namespace reprise
