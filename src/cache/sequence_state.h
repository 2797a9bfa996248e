// The state of one sequence: all families of all layers at one length, or
// none of it. Says where its rows lie in the pools, what it costs, whether it
// can be cut back, and turns it to bytes and back.
//
// A SequenceState is plain data and owns nothing: its ids are those of blocks
// and of a slot that the holder keeps alive (prefix/block_allocator.h). What
// touches pools runs on the engine's thread, between steps, on the CPU. What
// it costs at any length is state_bytes() of state_layout.h, exact, before
// anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/block_pools.h"

namespace reprise {

struct SequenceState {
  // Row p of a PerToken family lies at row blocks[p / 256] * 256 + p % 256 of
  // its pool; other growths likewise, by their own rows_per_block().
  std::vector<std::int32_t> blocks = {};
  std::int32_t slot = -1;  // of the Snapshot families at `length`; none at 0
  int length = 0;          // committed tokens
  // The length at which it came from bytes: of windows, rows that were behind
  // them then are not there. 0: all of it was computed here.
  int restored = 0;
};

// Whether a state can be put at `tokens`, and if not, which family forbids it.
// No length is a surprise: a negative one, or one ahead, is answered as well.
struct Cut {
  bool possible = true;
  std::string reason = {};  // one sentence; empty where it is possible
};
Cut cut_to(const StateLayout& layout, const SequenceState& state, int tokens);

// Format: the magic "RPRSTATE", version and header size (uint32, little
// endian), a JSON header with the layout's identity and the length; then for
// each block of 256 tokens the rows of every layer's every family that
// rows_at(length) says, and behind the last block the Snapshot families. Rows
// are as stored; a stale one is never written. At length 0 there is only the
// header.
//
// A block's part needs nothing but its own rows, and its size is known: a
// store may write it by itself.
std::size_t bytes_of_block(const StateLayout& layout, int length, int block);

std::string to_bytes(const BlockPools& pools, const SequenceState& state);

// Writes the rows to `into.blocks`, at least as many as the length needs, and
// `into.slot`; its lengths are not looked at, further blocks are left out of
// the result. Error (corrupt; too_large where blocks are short): another
// layout, length, or size than these pools can take, named by layer and
// family with both values; then no row has been written.
Result<SequenceState> from_bytes(std::string_view bytes,
                                 const BlockPools& pools, SequenceState into);

}  // namespace reprise
