// What simulated traffic draws from, and the seed that a failure prints.
#pragma once

#include <csignal>
#include <cstdio>
#include <random>
#include <vector>

#include "request/request.h"

namespace reprise::sim {

class RandomSource {
 public:
  RandomSource(unsigned seed, int vocabulary)
      : rng_(seed), vocabulary_(vocabulary) {}

 protected:
  double uniform() { return std::uniform_real_distribution<>(0, 1)(rng_); }
  bool chance(double p) { return uniform() < p; }
  int between(int low, int high) {
    return std::uniform_int_distribution<>(low, high)(rng_);
  }
  std::vector<TokenId> random_tokens(int count) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    for (auto& token : tokens) token = between(0, vocabulary_ - 1);
    return tokens;
  }

  std::mt19937 rng_;

 private:
  const int vocabulary_;
};

// While it lives, an abort prints the seed: a failed CHECK ends the program
// before any trace is printed.
class SeedOnAbort {
 public:
  SeedOnAbort() : before_(std::signal(SIGABRT, tell)) {}
  ~SeedOnAbort() { std::signal(SIGABRT, before_); }
  SeedOnAbort(const SeedOnAbort&) = delete;
  SeedOnAbort& operator=(const SeedOnAbort&) = delete;

  static void set(int seed) { current() = seed; }

 private:
  static volatile std::sig_atomic_t& current() {
    static volatile std::sig_atomic_t seed = 0;
    return seed;
  }
  static void tell(int) {
    std::fprintf(stderr, "REPRISE_SEED=%d\n", static_cast<int>(current()));
  }

  void (*const before_)(int);
};

}  // namespace reprise::sim
