// Who holds which block: the pool's books, the prefix index, and the rules by
// which a sequence gets blocks, writes to them and leaves them. The one rule
// that matters: a sequence never writes to a block that has another holder,
// be it a sequence or the index; it copies the rows it needs first.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "prefix/prefix_index.h"
#include "scheduler/sequence.h"
#include "scheduler/step_plan.h"

namespace reprise {

// What a planned row took, so that it can be committed or given back.
struct Reservation {
  int end = 0;                 // rows [length, end) have a place of their own
  int blocks_before = 0;       // of the table
  std::vector<BlockId> taken;  // fresh blocks, in order
  int from_spare = 0;          // the first of them
  std::optional<BlockId> shared_tail;  // replaced in the table by its copy
  SlotId slot = kNoSlot;               // where the state behind `end` goes
};

class BlockBooks {
 public:
  // slot_count 0: the model keeps no snapshots.
  BlockBooks(int block_count, int slot_count);

  const BlockAllocator& allocator() const { return allocator_; }
  // nullptr: the model keeps no snapshots.
  const BlockAllocator* slots() const { return slots_ ? &*slots_ : nullptr; }
  const PrefixIndex& index() const { return index_; }

  // Looks for the sequence's tokens in the index and, if what it then needs
  // for rows_promised rows fits beside `outstanding` blocks promised to
  // others, gives it those found and spares for its first quantum. With
  // `alone` it is admitted in any case.
  struct Admission {
    bool admitted = false;
    PrefixHit hit;  // its references are the sequence's
  };
  Admission admit(Sequence& sequence, int outstanding, bool alone);

  // Blocks that were promised at admission and not taken yet.
  int outstanding(const Sequence& sequence) const;

  // Finds places for rows [length, end), evicting cached blocks. False: there
  // are places only up to reservation.end (a block's end, or none at all);
  // may be called again when others have made room.
  bool reserve(Sequence& sequence, int end, Reservation& reservation);

  // The copy that the reserved rows need before they are written.
  std::optional<BlockCopy> copy_of(const Sequence& sequence,
                                   const Reservation& reservation) const;

  // The rows were not written, or not wholly: all as before reserve().
  void undo(Sequence& sequence, Reservation& reservation);

  // The rows [length, end) are there; full blocks of a caching sequence are
  // published, and so is its state where a snapshot is due.
  void commit(Sequence& sequence, Reservation& reservation, int end);

  // Shares the partly filled last block as it is now. Its owner will copy it
  // before it goes on, and has the block for that; false if there is none.
  bool publish_tail(Sequence& sequence);

  // Takes the last block out of the index, so that its only holder can go on
  // writing without a copy. For a pool that has no room for one.
  bool reclaim_tail(Sequence& sequence);

  // The index lets go of all that holds rows of these tokens, and of what was
  // built on it; these blocks. Who uses one goes on with it.
  std::vector<BlockId> quarantine(std::span<const TokenId> tokens);

  enum class Leave {
    published,   // committed rows go to the index, if the sequence caches
    distrusted,  // and what of them is in the index for it alone is dropped
  };
  void leave(Sequence& sequence, Leave how);

  // CHECKs that every block has exactly the holders that `sequences` and the
  // index account for.
  void check(const std::vector<const Sequence*>& sequences) const;

 private:
  std::optional<BlockId> take();  // a free block, evicting for it
  bool tail_shared(const Sequence& sequence) const;
  void publish(Sequence& sequence, int rows);
  void take_slot(Reservation& reservation);
  void keep_snapshot(Sequence& sequence);
  void forget_snapshots(Sequence& sequence);
  void check_slots(const std::vector<const Sequence*>& sequences) const;

  BlockAllocator allocator_;
  std::optional<BlockAllocator> slots_;
  PrefixIndex index_;
};

}  // namespace reprise
