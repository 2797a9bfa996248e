#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace reprise {
namespace {

TokenId greedy(std::span<const float> logits) {
  // max_element gives the first of equals: the lowest id.
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// One step of SplitMix64 (Steele, Lea, Flood 2014): a good 64-bit mix.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Uniform in [0, 1) from (seed, index) alone: no generator state to carry
// over a preemption, a retry or a restart.
double uniform(std::uint64_t seed, int index) {
  const std::uint64_t bits = mix(mix(seed) ^ static_cast<std::uint64_t>(index));
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

TokenId sample(std::span<const float> logits, const SamplingParams& params,
               int index) {
  CHECK(!logits.empty());
  if (params.temperature <= 0.0f || params.top_k == 1) return greedy(logits);

  const auto kept =
      params.top_k > 0
          ? std::min(logits.size(), static_cast<std::size_t>(params.top_k))
          : logits.size();
  Ranking ranking(logits);
  const double peak = logits[greedy(logits)];
  const auto weight = [&](TokenId id) {
    return std::exp((logits[id] - peak) / params.temperature);
  };

  double total = 0;  // over the top-k, in id order when that is everything
  if (kept == logits.size()) {
    for (std::size_t id = 0; id < kept; ++id)
      total += weight(static_cast<TokenId>(id));
  } else {
    for (const TokenId id : ranking.top(kept)) total += weight(id);
  }

  // The nucleus: the shortest run of largest weights that reaches top_p.
  // What is drawn lies in it, so drawing a share of its mass and walking down
  // the ranking needs no second pass over the vocabulary.
  const double nucleus = std::min(1.0, double{params.top_p}) * total;
  double mass = 0;
  std::size_t nucleus_size = 0;
  for (std::size_t size = 64; nucleus_size < kept; size *= 8) {
    const auto ids = ranking.top(std::min(size, kept));
    while (nucleus_size < ids.size()) {
      mass += weight(ids[nucleus_size++]);
      if (mass >= nucleus) break;
    }
    if (mass >= nucleus) break;
  }
  const auto ids = ranking.top(nucleus_size);
  double left = uniform(params.seed, index) * mass;
  for (const TokenId id : ids) {
    left -= weight(id);
    if (left < 0) return id;
  }
  return ids.back();  // rounding: the draw fell past the last weight
}

}  // namespace reprise
