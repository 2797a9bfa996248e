// Looks for stop strings in a text that arrives in pieces, byte by byte, so
// that how it was cut plays no part. Not thread-safe; one object a reply.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

class StopMatcher {
 public:
  // Empty strings are ignored. `include`: the text ends behind the stop string
  // instead of before it.
  explicit StopMatcher(std::vector<std::string> stop_strings,
                       bool include = false);

  // More text in; what is certainly not a part of a stop string comes out.
  // The first stop string to be complete ends the text, before its first
  // byte; of two that end together, the longer. After that: always empty.
  std::string push(std::string_view text);

  // What was held back as a possible beginning.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  // One string's automaton (Knuth, Morris, Pratt): `matched` bytes of it are
  // the end of the text so far.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;
    std::size_t matched = 0;

    explicit Pattern(std::string stop);
    bool step(char c);  // true: complete
  };

  std::vector<Pattern> patterns_;
  bool include_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace reprise
