#include <algorithm>
#include <vector>

#include "kernels/cpu/delta_task.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Below this many numbers of state that are stepped through, threads cost more
// than they bring (some 30 µs of one thread).
constexpr std::int64_t kParallelSteps = 300'000;

// The last item to end should not be waited for long.
constexpr int kItemsPerThread = 4;

// Value channels of an item: a whole head where there are heads enough, as
// each item prepares the keys of its head for itself.
int values_of_item(const DeltaTask& task, int heads) {
  const int parts = std::max(1, kItemsPerThread * thread_count() / heads);
  const int values = (task.value_dim + parts - 1) / parts;
  return std::max(1, (values + kDeltaValues - 1) / kDeltaValues) * kDeltaValues;
}

void run_item(const DeltaTask& task, const DeltaItem& item) {
  static thread_local Scratch scratch;
  REPRISE_PICK_ISA(gated_delta)
  (task, item, scratch.floats(delta_scratch_size(task, item.values)));
}

}  // namespace

void run_gated_delta(const DeltaTask& task, const RaggedBatch& batch) {
  const int heads =
      std::max(1, static_cast<int>(batch.spans.size()) * task.heads);
  const int values = values_of_item(task, heads);
  std::vector<DeltaItem> items;
  for (const RaggedSpan& span : batch.spans)
    for (int head = 0; head < task.heads; ++head)
      for (int v = 0; v < task.value_dim; v += values)
        items.push_back({&span, head, v, std::min(values, task.value_dim - v)});
  // The longest go first.
  std::stable_sort(items.begin(), items.end(),
                   [](const DeltaItem& a, const DeltaItem& b) {
                     return a.span->row_count > b.span->row_count;
                   });
  const int count = static_cast<int>(items.size());
  const std::int64_t states =
      std::int64_t{task.heads} * task.key_dim * task.value_dim;
  if (states * batch.tokens < kParallelSteps) {
    for (const DeltaItem& item : items) run_item(task, item);
    return;
  }
  parallel_for(count, [&](int i) { run_item(task, items[i]); });
}

}  // namespace reprise::kernels::cpu
