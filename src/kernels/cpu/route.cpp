#include <algorithm>

#include "kernels/cpu/route_task.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Scores and comparisons from which threads are worth their while.
constexpr std::int64_t kParallelSteps = 40'000;

void route_some(const RouteTask& task, int begin, int end) {
  static thread_local Scratch scratch;
  REPRISE_PICK_ISA(route_rows)
  (task, begin, end, scratch.floats(route_scratch_size(task)));
}

}  // namespace

void route(const RouteTask& task, int rows) {
  constexpr int kTogether = 8;
  const auto steps = std::int64_t{rows} * task.experts * (4 + task.top_k);
  if (rows <= kTogether || steps < kParallelSteps)
    return route_some(task, 0, rows);
  parallel_for((rows + kTogether - 1) / kTogether, [&](int i) {
    route_some(task, i * kTogether, std::min(rows, (i + 1) * kTogether));
  });
}

}  // namespace reprise::kernels::cpu
