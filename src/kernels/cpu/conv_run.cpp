#include <algorithm>
#include <vector>

#include "kernels/cpu/conv_task.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Rows and channels of an item: some 20 µs of a thread.
constexpr int kItemRows = 16;
constexpr int kItemChannels = 4096;

// Outputs from which threads are worth their while.
constexpr std::int64_t kParallelOutputs = 60'000;

}  // namespace

void run_short_conv(const ConvTask& task, const RaggedBatch& batch) {
  std::vector<ConvItem> items;
  for (const RaggedSpan& span : batch.spans)
    for (int c = 0; c < task.channels; c += kItemChannels) {
      const int channels = std::min(kItemChannels, task.channels - c);
      // One item even without rows: the value goes to another slot.
      int row = 0;
      do {
        const int end = std::min(span.row_count, row + kItemRows);
        items.push_back({&span, row, end, c, channels});
        row = end;
      } while (row < span.row_count);
    }
  const auto run = [&](int i) { REPRISE_PICK_ISA(short_conv)(task, items[i]); };
  const int count = static_cast<int>(items.size());
  if (std::int64_t{batch.tokens} * task.channels >= kParallelOutputs)
    return parallel_for(count, run);
  for (int i = 0; i < count; ++i) run(i);
}

}  // namespace reprise::kernels::cpu
