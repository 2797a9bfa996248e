// One forward step as plain data: which tokens of which sequences are
// evaluated, and where their state rows lie. Made by the scheduler, run by an
// engine/runner.h. A step is all or nothing: it writes rows only at and past
// `start`, and nobody reads those before the step is committed.
#pragma once

#include <vector>

#include "prefix/block_allocator.h"
#include "request/request.h"

namespace reprise {

// Rows [0, rows) of block `from` are copied to block `to` before any row of
// the step is written.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
  int rows = 0;
};

struct StepRow {
  RequestId id = 0;
  int start = 0;                // position of tokens[0]: the committed length
  std::vector<TokenId> tokens;  // not empty, all of them known
  std::vector<BlockId> blocks;  // table: row p lies in blocks[p / 256], for
                                // every p < start + tokens.size()
  // Snapshot models: the state at `start` is read from one slot (kNoSlot at 0:
  // there is none yet), that behind the last token written to another.
  SlotId slot_from = kNoSlot;
  SlotId slot_to = kNoSlot;
  int logits_wanted = 0;  // of the last so many tokens: 0 none, 1 the
                          // last, tokens.size() all
};

struct StepPlan {
  std::vector<StepRow> rows;  // not empty
  std::vector<BlockCopy> copies;
};

}  // namespace reprise
