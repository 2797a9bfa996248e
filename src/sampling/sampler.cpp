#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/mix.h"
#include "sampling/penalties.h"

namespace reprise {
namespace {

TokenId greedy(std::span<const float> logits) {
  // max_element gives the first of equals: the lowest id.
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// Uniform in [0, 1) from (seed, index) alone: no generator state to carry
// over a preemption, a retry or a restart.
double uniform(std::uint64_t seed, int index) {
  const std::uint64_t bits =
      mix64(mix64(seed) ^ static_cast<std::uint64_t>(index));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Ids of the candidates, largest logit first, equal logits by id. Sorting a
// whole vocabulary costs milliseconds, so only as much is sorted as is asked
// for; top-p alone rarely needs more than a few hundred.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits)
      : logits_(logits), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), TokenId{0});
  }

  std::span<const TokenId> top(std::size_t count) {
    count = std::min(count, ids_.size());
    if (count > sorted_) {
      const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(sorted_);
      const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(count);
      const auto before = [this](TokenId a, TokenId b) {
        return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
      };
      std::partial_sort(begin, end, ids_.end(), before);
      sorted_ = count;
    }
    return std::span(ids_).first(count);
  }

 private:
  const std::span<const float> logits_;
  std::vector<TokenId> ids_;
  std::size_t sorted_ = 0;
};

}  // namespace

bool all_usable(std::span<const float> logits) {
  bool any_finite = false;
  for (const float x : logits) {
    if (std::isnan(x) || x == std::numeric_limits<float>::infinity())
      return false;
    any_finite |= std::isfinite(x);
  }
  return any_finite;
}

namespace {

// Draws from logits that are as the request wants them.
TokenId draw(std::span<const float> logits, const SamplingParams& params,
             int index) {
  if (params.temperature <= 0.0f || params.top_k == 1) return greedy(logits);

  const double peak = logits[greedy(logits)];
  const auto weight = [&](TokenId id) {  // 1 for the largest
    return std::exp((logits[id] - peak) / params.temperature);
  };
  Ranking ranking(logits);
  const auto kept =
      params.top_k > 0
          ? std::min(logits.size(), static_cast<std::size_t>(params.top_k))
          : logits.size();

  // Over the top-k, in id order when that is everything.
  double total = 0;
  const auto count = [&](TokenId id) {
    const double w = weight(id);
    if (w >= params.min_p) total += w;
  };
  if (kept == logits.size()) {
    for (std::size_t id = 0; id < kept; ++id) count(static_cast<TokenId>(id));
  } else {
    for (const TokenId id : ranking.top(kept)) count(id);
  }

  // The nucleus: the shortest run of largest weights that reaches top_p, no
  // longer than min_p lets it be. What is drawn lies in it, so drawing a share
  // of its mass and walking down the ranking needs no second pass over the
  // vocabulary.
  const double nucleus = std::min(1.0, double{params.top_p}) * total;
  double mass = 0;
  std::size_t nucleus_size = 0;
  bool whole = false;
  for (std::size_t size = 64; !whole && nucleus_size < kept; size *= 8) {
    const auto ids = ranking.top(std::min(size, kept));
    while (!whole && nucleus_size < ids.size()) {
      const double w = weight(ids[nucleus_size]);
      whole = w < params.min_p;
      if (whole) break;
      mass += w;
      ++nucleus_size;
      whole = mass >= nucleus;
    }
  }
  const auto ids = ranking.top(nucleus_size);
  double left = uniform(params.seed, index) * mass;
  for (const TokenId id : ids) {
    left -= weight(id);
    if (left < 0) return id;
  }
  return ids.back();  // rounding: the draw fell past the last weight
}

}  // namespace

TokenId sample(const SampleInput& input, const SamplingParams& params) {
  CHECK(!input.logits.empty());
  SampleInput in = input;
  if (params.vocabulary > 0)
    in.logits = in.logits.first(std::min(
        in.logits.size(), static_cast<std::size_t>(params.vocabulary)));
  const int index = static_cast<int>(input.reply.size());
  if (leaves_logits(in, params)) return draw(in.logits, params, index);
  return draw(adjusted_logits(in, params), params, index);
}

TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token,
                          int top) {
  CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size(),
        "token {} of {}", token, logits.size());
  const double peak = logits[greedy(logits)];
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - peak);
  const double log_sum = std::log(sum);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>((logits[id] - peak) - log_sum);
  };
  TokenLogprobs out{.logprob = logprob(token), .rank = 1, .top = {}};
  for (const float x : logits) out.rank += x > logits[token];
  if (top <= 0) return out;
  Ranking ranking(logits);
  for (const TokenId id : ranking.top(static_cast<std::size_t>(top)))
    out.top.push_back({.token = id, .logprob = logprob(id)});
  return out;
}

}  // namespace reprise
