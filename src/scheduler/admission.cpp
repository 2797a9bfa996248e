#include "scheduler/admission.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise {
namespace {

// Reply tokens that admission counts.
constexpr int kReplyTokensCounted = 256;

// Prompt tokens of `waiting` whose rows `owner` has or will have when its
// prefill ends. The last one is evaluated in any case.
int shareable(const Sequence& waiting, const Sequence& owner) {
  const int most = std::min(waiting.size() - 1, owner.goal);
  const auto end = waiting.tokens.begin() + most;
  const auto at =
      std::mismatch(waiting.tokens.begin(), end, owner.tokens.begin()).first;
  return static_cast<int>(at - waiting.tokens.begin());
}

}  // namespace

Result<void> check_request(const Request& request,
                           const SchedulerLimits& limits) {
  if (request.prompt.empty())
    return Error{.kind = ErrorKind::invalid,
                 .message = "The prompt has no tokens.",
                 .subject = "prompt"};
  if (request.max_tokens < 0)
    return Error{
        .kind = ErrorKind::invalid,
        .message = fmt::format("max_tokens is {}; it must not be negative.",
                               request.max_tokens),
        .subject = "max_tokens"};
  const auto tokens =
      static_cast<long long>(request.prompt.size()) + request.max_tokens;
  if (tokens > limits.context_tokens)
    return Error{
        .kind = ErrorKind::too_large,
        .message = fmt::format(
            "The prompt has {} tokens and max_tokens is {}, together {}; the "
            "context holds {}. Shorten the prompt or ask for less.",
            request.prompt.size(), request.max_tokens, tokens,
            limits.context_tokens),
        .subject = "prompt",
        .code = "context_length_exceeded"};
  // The last reply token needs no row.
  const int blocks = blocks_for(static_cast<int>(request.prompt.size()) +
                                std::max(request.max_tokens, 1) - 1);
  if (blocks > limits.block_count)
    return Error{
        .kind = ErrorKind::too_large,
        .message = fmt::format(
            "A prompt of {} tokens with max_tokens {} needs {} blocks of "
            "state; the state memory holds {}. Raise --state-memory or ask "
            "for less.",
            request.prompt.size(), request.max_tokens, blocks,
            limits.block_count),
        .subject = "prompt",
        .code = "context_length_exceeded"};
  return {};
}

int rows_counted(const Sequence& s) {
  return s.size() + std::clamp(s.reply_left(), 1, kReplyTokensCounted) - 1;
}

bool held_back(Sequence& waiting, std::span<const SequencePtr> running,
               const PrefixIndex& index) {
  if (!waiting.caches() || waiting.scores()) return false;
  int in_index = -1;  // looked up when somebody has something to offer
  for (const auto& owner : running) {
    if (!owner->caches() || !owner->prefills()) continue;
    const int prefix = shareable(waiting, *owner);
    const bool known = owner->id == waiting.held_by;
    const int least = known ? 0 : waiting.held_for;
    if (prefix < least + kQuantumTokens) continue;
    if (in_index < 0)
      in_index = index.lookup(waiting.tokens, waiting.size() - 1);
    if (prefix < in_index + kQuantumTokens) continue;
    waiting.held_by = owner->id;
    waiting.held_for = std::max(waiting.held_for, prefix);
    return true;
  }
  return false;
}

bool tail_wanted(const Sequence& s, std::span<const Sequence* const> waiting) {
  const int full = s.length / kBlockTokens * kBlockTokens;
  return std::any_of(waiting.begin(), waiting.end(), [&](const Sequence* w) {
    return w->caches() && shareable(*w, s) >= full + kQuantumTokens;
  });
}

}  // namespace reprise
