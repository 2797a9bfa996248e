#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace reprise {

StopMatcher::Pattern::Pattern(std::string stop)
    : text(std::move(stop)), fallback(text.size(), 0) {
  // fallback[i]: the longest proper beginning of text that ends at byte i.
  for (std::size_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = fallback[k - 1];
    if (text[i] == text[k]) ++k;
    fallback[i] = k;
  }
}

bool StopMatcher::Pattern::step(char c) {
  while (matched > 0 && text[matched] != c) matched = fallback[matched - 1];
  if (text[matched] == c) ++matched;
  return matched == text.size();
}

StopMatcher::StopMatcher(std::vector<std::string> stop_strings, bool include)
    : include_(include) {
  for (std::string& stop : stop_strings)
    if (!stop.empty()) patterns_.emplace_back(std::move(stop));
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return "";
  for (char c : text) {
    held_ += c;
    std::size_t longest = 0;
    for (Pattern& pattern : patterns_)
      if (pattern.step(c)) longest = std::max(longest, pattern.text.size());
    if (longest > 0) {
      stopped_ = true;
      if (!include_) held_.resize(held_.size() - longest);
      return std::exchange(held_, {});
    }
  }
  std::size_t possible = 0;
  for (const Pattern& pattern : patterns_)
    possible = std::max(possible, pattern.matched);
  const std::size_t certain = held_.size() - possible;
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace reprise
