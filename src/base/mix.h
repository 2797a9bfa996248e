// A good mix of 64 bits into 64 bits: one step of SplitMix64 (Steele, Lea,
// Flood 2014). For draws that depend on numbers alone; not for secrets.
#pragma once

#include <cstdint>

namespace reprise {

// What SplitMix64 adds to its state at each step.
inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += kMixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace reprise
