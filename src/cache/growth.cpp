#include "cache/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace reprise {
namespace {

template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overload(Fs...) -> Overload<Fs...>;

}  // namespace

RowRange rows_at(const Growth& growth, int tokens) {
  return std::visit(
      Overload{[&](PerToken) {
                 return RowRange{0, tokens};
               },
               [&](Window w) {
                 return RowRange{std::max(0, tokens - w.width), tokens};
               },
               [&](Pooled p) {
                 return RowRange{0, tokens / p.stride};
               },
               [&](Snapshot) {
                 return RowRange{0, 1};
               }},
      growth);
}

RowRange rows_written(const Growth& growth, int begin, int end) {
  return std::visit(
      Overload{[&](PerToken) {
                 return RowRange{begin, end};
               },
               [&](Window) {
                 return RowRange{begin, end};
               },
               [&](Pooled p) {
                 return RowRange{begin / p.stride, end / p.stride};
               },
               [&](Snapshot) {
                 return RowRange{0, begin < end ? 1 : 0};
               }},
      growth);
}

bool can_cut(const Growth& growth, RowRange held, int from, int to) {
  const RowRange needed = rows_at(growth, to);
  const bool there = needed.size() == 0 ||
                     (held.begin <= needed.begin && needed.end <= held.end);
  return std::visit(
      Overload{
          [&](PerToken) { return there; }, [&](Window) { return there; },
          // Between two pools the partial pool is needed too, and that is a
          // Snapshot family of its own.
          [&](Pooled p) { return there && (to == from || to % p.stride == 0); },
          [&](Snapshot) { return to == from; }},
      growth);
}

int rows_per_block(const Growth& growth) {
  return std::visit(
      Overload{
          [](PerToken) { return kBlockTokens; },
          [](Window w) {
            if (w.width < 1)
              throw std::invalid_argument(fmt::format(
                  "[state] a window of {} tokens holds nothing", w.width));
            return kBlockTokens;
          },
          [](Pooled p) {
            if (p.stride < 1 || kBlockTokens % p.stride != 0)
              throw std::invalid_argument(fmt::format(
                  "[state] a pool of {} tokens does not divide a block of {}",
                  p.stride, kBlockTokens));
            return kBlockTokens / p.stride;
          },
          [](Snapshot) { return 0; }},
      growth);
}

std::string describe(const Growth& growth) {
  return std::visit(
      Overload{
          [](PerToken) { return std::string("per token"); },
          [](Window w) { return fmt::format("window of {} tokens", w.width); },
          [](Pooled p) { return fmt::format("pooled by {}", p.stride); },
          [](Snapshot) { return std::string("snapshot"); }},
      growth);
}

}  // namespace reprise
