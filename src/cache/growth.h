// How a piece of state grows with the tokens evaluated. There are four ways,
// and everything else about state (sizing, cutting back, saving, batching) is
// generic code over these four. Pure arithmetic; no MLX.
//
//   growth        rows after N tokens     can be cut back to M < N
//   PerToken      N                       always
//   Window{w}     the last min(N, w)      while rows M - w ... M are held
//   Pooled{s}     floor(N / s)            where M is a multiple of s
//   Snapshot      one value at exactly N  never (only an older snapshot)
//
// Zero rows are ordinary: a Pooled family has none until its first pool.
#pragma once

#include <string>
#include <variant>

#include "base/limits.h"

namespace reprise {

struct PerToken {};
struct Window {
  int width = 0;  // tokens
};
struct Pooled {
  int stride = 1;  // tokens a row; divides kBlockTokens
};
struct Snapshot {};

using Growth = std::variant<PerToken, Window, Pooled, Snapshot>;

// Positions of rows, as a half-open range of row indices counted from the
// sequence's beginning (for Pooled, of pools). A Snapshot has one row, 0.
struct RowRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

// The rows that must be kept to go on from `tokens` evaluated tokens.
RowRange rows_at(const Growth& growth, int tokens);

// The rows that evaluating tokens [begin, end) adds; never an older one.
RowRange rows_written(const Growth& growth, int begin, int end);

// Whether state of `from` tokens, of which rows `held` are still there, can
// be put at `to` tokens (0 <= to <= from).
bool can_cut(const Growth& growth, RowRange held, int from, int to);

// Rows of one block of kBlockTokens tokens; 0 for Snapshot, which is kept as
// one slot and not in blocks. Throws std::invalid_argument for a stride that
// does not divide kBlockTokens or a width below 1.
int rows_per_block(const Growth& growth);

// For people: "per token", "window of 64 tokens", "pooled by 4", "snapshot".
std::string describe(const Growth& growth);

}  // namespace reprise
