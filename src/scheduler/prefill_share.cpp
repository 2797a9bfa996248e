#include "scheduler/prefill_share.h"

#include <algorithm>
#include <cstddef>

#include "base/limits.h"

namespace reprise {

int quantum_end(int length, int goal) {
  return std::min(goal, (length / kQuantumTokens + 1) * kQuantumTokens);
}

std::vector<int> share_prefill(const std::vector<PrefillDemand>& demands,
                               int budget_tokens, std::uint64_t& turn) {
  std::vector<int> ends;
  for (const auto& demand : demands) ends.push_back(demand.length);
  const auto wants = [&](std::size_t i) { return ends[i] < demands[i].goal; };

  const std::size_t others = demands.size() - 1;
  int used_tokens = 0;
  while (true) {
    // Even turns are the oldest's; odd ones go round among the others.
    std::size_t i = turn % 2 == 0 || others == 0 ? 0 : 1 + turn / 2 % others;
    std::size_t tried = 0;
    while (!wants(i) && ++tried <= demands.size()) i = (i + 1) % demands.size();
    if (!wants(i)) break;
    const int end = quantum_end(ends[i], demands[i].goal);
    const int cost = end - ends[i];
    if (used_tokens > 0 && used_tokens + cost > budget_tokens) break;
    ends[i] = end;
    used_tokens += cost;
    ++turn;
  }
  return ends;
}

}  // namespace reprise
