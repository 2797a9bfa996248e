#include "engine/sample_step.h"

#include <utility>

#include "sampling/sampler.h"

namespace reprise {
namespace {

SampledToken sample_token(std::span<const float> logits,
                          const RequestView& view) {
  const Request& request = view.request;
  SampleInput input{
      .logits = logits, .prompt = view.prompt, .reply = view.reply};
  if (static_cast<int>(view.reply.size()) < request.min_tokens)
    input.banned = request.stop_tokens;
  SampledToken token{.id = sample(input, request.sampling)};
  if (request.logprobs)
    token.logprobs = logprobs_of(logits, token.id, *request.logprobs);
  return token;
}

// The logits of one row of the plan: `first` is the index of its first ones.
RowOutput row_output(const StepRow& row, const StepLogits& logits, int first,
                     const RequestView& view) {
  RowOutput output;
  const int end = row.start + static_cast<int>(row.tokens.size());
  const int prompt_size = static_cast<int>(view.prompt.size());
  const int size = prompt_size + static_cast<int>(view.reply.size());
  const int from = end - row.logits_wanted;
  for (int p = from; p < end && view.request.prompt_logprobs; ++p) {
    if (p + 1 >= prompt_size) break;
    if (!output.prompt) output.prompt = PromptLogprobs{p + 1, {}};
    output.prompt->tokens.push_back(logprobs_of(logits.row(first + p - from),
                                                view.prompt[p + 1],
                                                *view.request.prompt_logprobs));
  }
  const int left =
      view.request.max_tokens - static_cast<int>(view.reply.size());
  if (end == size && left > 0)
    output.token = sample_token(logits.row(first + end - 1 - from), view);
  return output;
}

}  // namespace

std::optional<StepOutput> sample_step(const StepPlan& plan,
                                      const StepLogits& logits,
                                      const Scheduler& scheduler) {
  StepOutput output;
  int first = 0;
  for (const StepRow& row : plan.rows) {
    for (int i = 0; i < row.logits_wanted; ++i)
      if (!all_usable(logits.row(first + i))) return std::nullopt;
    output.rows.emplace_back();
    if (row.logits_wanted > 0)
      output.rows.back() =
          row_output(row, logits, first, scheduler.view(row.id));
    first += row.logits_wanted;
  }
  return output;
}

}  // namespace reprise
