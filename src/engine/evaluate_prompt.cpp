#include "engine/evaluate_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/limits.h"

namespace reprise {
namespace {

Result<void> check(const RunnerInfo& info, std::span<const TokenId> ids) {
  if (ids.empty())
    return Error{ErrorKind::invalid, "there are no token ids to evaluate"};
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= info.vocabulary)
      return Error{
          ErrorKind::invalid,
          fmt::format("token id {} (number {} of {}) is not one of this "
                      "model's, which are 0 to {}",
                      ids[i], i + 1, ids.size(), info.vocabulary - 1)};
  if (ids.size() > static_cast<std::size_t>(info.context_tokens))
    return Error{.kind = ErrorKind::invalid,
                 .message = fmt::format(
                     "{} token ids are more than the model's context of {}",
                     ids.size(), info.context_tokens),
                 .code = "context_length_exceeded"};
  const std::size_t held =
      std::size_t{kBlockTokens} * static_cast<std::size_t>(info.block_count);
  if (ids.size() > held)
    return Error{ErrorKind::too_large,
                 fmt::format("{} token ids are more than the state's memory "
                             "holds ({}): give more with --state-memory",
                             ids.size(), held)};
  return {};
}

}  // namespace

Result<void> evaluate_prompt(Runner& runner, std::span<const TokenId> ids,
                             const SpanLogits& receive) {
  if (const auto checked = check(runner.info(), ids); !checked) return checked;
  std::vector<BlockId> blocks(
      static_cast<std::size_t>(blocks_for(static_cast<int>(ids.size()))));
  std::iota(blocks.begin(), blocks.end(), 0);
  const bool snapshots = runner.info().slot_count > 0;
  SlotId from = kNoSlot, to = snapshots ? 0 : kNoSlot;
  for (std::size_t first = 0; first < ids.size(); first += kQuantumTokens) {
    const auto span = ids.subspan(
        first, std::min<std::size_t>(kQuantumTokens, ids.size() - first));
    StepPlan plan;
    plan.rows.push_back({.id = 1,
                         .start = static_cast<int>(first),
                         .tokens = {span.begin(), span.end()},
                         .blocks = blocks,
                         .slot_from = from,
                         .slot_to = to,
                         .logits_wanted = static_cast<int>(span.size())});
    receive(static_cast<int>(first), runner.run(plan));
    from = to;
    if (snapshots) to = 1 - from;  // a step reads one and writes the other
  }
  return {};
}

}  // namespace reprise
