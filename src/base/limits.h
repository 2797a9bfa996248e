// The numbers that several folders must agree on. Every queue, batch, body
// and file has a limit; a limit that only one file uses stands in that file.
#pragma once

#include <cstddef>

namespace reprise {

// Rows of per-token state in a block: the unit that attention reads, the
// prefix cache names and the store will write.
inline constexpr int kBlockTokens = 256;

// Blocks that hold `rows` >= 0 rows.
constexpr int blocks_for(int rows) {
  return rows / kBlockTokens + (rows % kBlockTokens != 0);
}

// A prefill span that does not start at reused state starts and ends at an
// absolute multiple of this, or at the end of the prompt.
inline constexpr int kQuantumTokens = 64;
static_assert(kBlockTokens % kQuantumTokens == 0);

// Inside a long text a snapshot is kept in each stretch of so many tokens.
inline constexpr int kSnapshotTokens = 4096;

// Positions of one prompt that are marked for a snapshot.
inline constexpr std::size_t kMarksMax = 4;

// Requests that may wait for the engine, over all clients.
inline constexpr std::size_t kInboxRequestsMax = 1024;

// HTTP.
inline constexpr std::size_t kBodyBytesMax = std::size_t{32} << 20;
inline constexpr std::size_t kBodiesBytesMax = std::size_t{256} << 20;
inline constexpr std::size_t kHeaderBytesMax = std::size_t{64} << 10;

}  // namespace reprise
