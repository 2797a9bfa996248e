#include "sampling/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace reprise {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool in(std::span<const float> logits, TokenId token) {
  return token >= 0 && static_cast<std::size_t>(token) < logits.size();
}

// Each of the last `window` tokens of prompt and reply once.
std::unordered_set<TokenId> recent_tokens(const SampleInput& input,
                                          int window) {
  const std::size_t all = input.prompt.size() + input.reply.size();
  const std::size_t kept =
      window < 0 ? all : std::min(all, static_cast<std::size_t>(window));
  const auto of_reply = std::min(kept, input.reply.size());
  const auto of_prompt = kept - of_reply;
  std::unordered_set<TokenId> tokens;
  for (const TokenId token : input.reply.last(of_reply)) tokens.insert(token);
  for (const TokenId token : input.prompt.last(of_prompt)) tokens.insert(token);
  return tokens;
}

void penalize_repetition(const SampleInput& input, const SamplingParams& params,
                         std::span<float> logits) {
  if (params.repetition_penalty == 1.0f) return;
  for (const TokenId token : recent_tokens(input, params.repetition_window)) {
    if (!in(logits, token)) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / params.repetition_penalty
                      : logit * params.repetition_penalty;
  }
}

void penalize_use(const SampleInput& input, const SamplingParams& params,
                  std::span<float> logits) {
  if (params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  std::unordered_map<TokenId, int> counts;
  for (const TokenId token : input.reply) ++counts[token];
  for (const auto& [token, count] : counts)
    if (in(logits, token))
      logits[token] -= params.presence_penalty +
                       params.frequency_penalty * static_cast<float>(count);
}

}  // namespace

bool leaves_logits(const SampleInput& input, const SamplingParams& params) {
  return input.banned.empty() && params.logit_bias.empty() &&
         params.repetition_penalty == 1.0f && params.presence_penalty == 0 &&
         params.frequency_penalty == 0;
}

std::vector<float> adjusted_logits(const SampleInput& input,
                                   const SamplingParams& params) {
  std::vector<float> logits(input.logits.begin(), input.logits.end());
  for (const auto& [token, bias] : params.logit_bias)
    if (in(logits, token)) logits[token] += bias;
  penalize_repetition(input, params, logits);
  penalize_use(input, params, logits);
  if (input.banned.empty()) return logits;
  auto kept = logits;
  for (const TokenId token : input.banned)
    if (in(kept, token)) kept[token] = kNever;
  const bool any = std::any_of(kept.begin(), kept.end(),
                               [](float x) { return std::isfinite(x); });
  return any ? kept : logits;
}

}  // namespace reprise
