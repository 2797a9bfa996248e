// How the prefill tokens of one step are shared out. A pure function of the
// sequences' lengths, the budget and a turn counter.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise {

struct PrefillDemand {
  int length = 0;  // committed rows: where the span starts
  int goal = 0;    // known tokens: where prefill ends, > length
};

// The end of the quantum that starts at `length`: the next absolute multiple
// of 64, or `goal`.
int quantum_end(int length, int goal);

// Hands out quanta, every second one to the oldest (demands[0]), the others
// to the rest in turn, until one does not fit into the budget any more. At
// least one quantum is handed out. Returns where each span ends (its start
// for those that get nothing). `turn` goes on from step to step, so that a
// budget of one quantum is shared as fairly.
std::vector<int> share_prefill(const std::vector<PrefillDemand>& demands,
                               int budget_tokens, std::uint64_t& turn);

}  // namespace reprise
