#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/expert_task.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}
int round_up(int a, int b) {
  return divide_up(a, b) * b;
}

// Slots whose rows are widened at once: bounds the memory, and costs another
// pass over the one expert that the border cuts.
constexpr int kSlotsAtOnce = 1024;

// See matmul.cpp.
constexpr int kTasksPerThread = 4;

// All slots, those of an expert together, otherwise in their own order.
std::vector<std::int32_t> slots_by_expert(const ExpertTask& task) {
  std::vector<std::int32_t> next(task.w.count + 1, 0);
  for (int slot = 0; slot < task.slots; ++slot) {
    const int expert = task.expert(slot);
    if (expert < 0 || expert >= task.w.count)
      throw std::out_of_range(
          fmt::format("[expert_matmul] id {} is not one of the {} experts",
                      expert, task.w.count));
    ++next[expert + 1];
  }
  for (int e = 0; e < task.w.count; ++e) next[e + 1] += next[e];
  std::vector<std::int32_t> slots(task.slots);
  for (int slot = 0; slot < task.slots; ++slot)
    slots[next[task.expert(slot)]++] = slot;
  return slots;
}

// The products of some slots, sorted by expert, in pieces for threads.
class ExpertRun {
 public:
  ExpertRun(const ExpertTask& task, const std::int32_t* slots, int count)
      : task_(task),
        slots_(slots),
        count_(count),
        stride_(round_up(task.w.first.columns, 16)),
        x_(memory(static_cast<std::size_t>(stride_) * count)) {}

  void run() {
    widen();
    add_jobs();
    parallel_for(static_cast<int>(jobs_.size()),
                 [this](int i) { multiply(jobs_[i]); });
  }

 private:
  struct Job {  // some rows of x, all for one expert, by some of its weights
    int expert;
    Tile tile;
  };

  // The gathered rows: the stream thread's, read by all.
  static float* memory(std::size_t floats) {
    static thread_local Scratch scratch;
    return scratch.floats(floats);
  }

  MatmulTask product(int expert) const {
    MatmulTask product;
    product.x = task_.x;
    product.x_row_bytes = task_.x_row_bytes;
    product.type = product.out_type = task_.type;
    product.w = task_.w.at(expert);
    product.out = task_.out;
    product.out_rows = slots_;
    return product;
  }

  void widen() const {
    constexpr int kTogether = 8;
    const MatmulTask source = product(0);
    const auto widen_row = REPRISE_PICK_ISA(widen_row);
    const auto some = [&](int i) {
      const int end = std::min((i + 1) * kTogether, count_);
      for (int r = i * kTogether; r < end; ++r)
        widen_row(source, slots_[r] / task_.slots_per_row, x_ + row_offset(r));
    };
    if (count_ <= kTogether)
      some(0);
    else
      parallel_for(divide_up(count_, kTogether), some);
  }

  void add_jobs() {
    struct Piece {
      int expert, row, rows;
    };
    std::vector<Piece> pieces;
    int few = 0;
    for (int row = 0; row < count_;) {
      const int expert = task_.expert(slots_[row]);
      int end = row + 1;
      while (end < count_ && end - row < kTileRows &&
             task_.expert(slots_[end]) == expert)
        ++end;
      pieces.push_back({expert, row, end - row});
      few += end - row <= kFewRows;
      row = end;
    }
    const int weights = task_.w.first.rows;
    // Few rows are a pass over the weights, cut so that all threads have some.
    const int few_weights =
        std::max(16, round_up(divide_up(weights * std::max(1, few),
                                        kTasksPerThread * thread_count()),
                              16));
    for (const Piece& piece : pieces) {
      const int step = piece.rows <= kFewRows ? few_weights : kTileWeights;
      for (int w = 0; w < weights; w += step)
        jobs_.push_back(
            {piece.expert,
             {piece.row, piece.rows, w, std::min(step, weights - w)}});
    }
  }

  void multiply(const Job& job) const {
    static thread_local Scratch scratch;
    const float* x = x_ + row_offset(job.tile.row);
    if (job.tile.rows <= kFewRows) {
      REPRISE_PICK_ISA(few_rows)(product(job.expert), x, job.tile);
      return;
    }
    const auto floats = tile_sizes(task_.w.first.columns).scratch_floats;
    REPRISE_PICK_ISA(many_rows)
    (product(job.expert), x, job.tile, scratch.floats(floats));
  }

  std::size_t row_offset(int row) const {
    return static_cast<std::size_t>(row) * stride_;
  }

  const ExpertTask& task_;
  const std::int32_t* const slots_;
  const int count_;
  const int stride_;
  float* const x_;
  std::vector<Job> jobs_;
};

}  // namespace

void expert_matmul(const ExpertTask& task) {
  const auto slots = slots_by_expert(task);
  for (int begin = 0; begin < task.slots; begin += kSlotsAtOnce)
    ExpertRun(task, slots.data() + begin,
              std::min(kSlotsAtOnce, task.slots - begin))
        .run();
}

}  // namespace reprise::kernels::cpu
