#include "kernels/cpu/attention_run.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Query rows (tokens x heads of a group) that share each tile of keys once it
// is unpacked: enough to hide the unpacking, few enough for the second-level
// cache.
constexpr int kItemRows = 96;

// Items with at most this many query rows may be split over chunks: their
// states are small, and without it a lone decode would use as many threads as
// there are heads of keys, at most.
constexpr int kSplitRows = 16;

// Below this many multiply-adds, threads cost more than they bring (some
// 30 µs of one thread).
constexpr std::int64_t kParallelMacs = 1'000'000;

// One attention in pieces for threads. Which pieces there are never shows in
// the result.
class AttentionRun {
 public:
  AttentionRun(const AttentionTask& task, const RaggedBatch& batch)
      : task_(task), group_(task.heads / task.kv_heads) {
    for (const RaggedSpan& span : batch.spans) add_span(span);
    // Later tokens see more positions; the longest pieces go first.
    std::reverse(whole_.begin(), whole_.end());
    states_ = state_memory(states_size_);
  }

  void run() {
    const int chunks = static_cast<int>(chunks_.size());
    const int count = chunks + static_cast<int>(whole_.size());
    for_each(count, [this, chunks](int i) {
      i < chunks ? run_chunk(chunks_[i]) : run_whole(whole_[i - chunks]);
    });
    for (const Split& split : splits_) REPRISE_PICK_ISA(join_chunks)
    (task_, split.item, states_ + split.states, split.chunks,
     scratch(split.item));
  }

 private:
  struct Split {
    AttentionItem item;
    std::size_t states;  // where they begin in states_
    int chunks;
  };
  struct Chunk {
    int split;
    int index;
  };

  void add_span(const RaggedSpan& span) {
    const int tokens = std::max(1, kItemRows / group_);
    for (int begin = 0; begin < span.row_count; begin += tokens)
      for (int head = 0; head < task_.kv_heads; ++head) {
        const AttentionItem item = {
            .blocks = span.blocks.data(),
            .first_row = span.first_row + begin,
            .tokens = std::min(tokens, span.row_count - begin),
            .position = span.start + begin,
            .kv_head = head};
        add_item(item);
      }
  }

  static int end(const AttentionItem& item) {
    return item.position + item.tokens;
  }

  void add_item(const AttentionItem& item) {
    macs_ +=
        std::int64_t{2} * item.tokens * group_ * end(item) * task_.head_dim;
    const int chunks = (end(item) + kAttentionChunk - 1) / kAttentionChunk;
    if (chunks == 1 || item.tokens * group_ > kSplitRows) {
      whole_.push_back(item);
      return;
    }
    for (int i = 0; i < chunks; ++i)
      chunks_.push_back({static_cast<int>(splits_.size()), i});
    splits_.push_back({item, states_size_, chunks});
    states_size_ += state_size(item) * chunks;
  }

  template <typename Body>
  void for_each(int count, const Body& body) const {
    if (macs_ >= kParallelMacs && count > 1) {
      parallel_for(count, body);
    } else {
      for (int i = 0; i < count; ++i) body(i);
    }
  }

  void run_whole(const AttentionItem& item) const {
    REPRISE_PICK_ISA(attend)(task_, item, scratch(item));
  }

  void run_chunk(const Chunk& chunk) {
    const Split& split = splits_[chunk.split];
    float* state =
        states_ + split.states + state_size(split.item) * chunk.index;
    REPRISE_PICK_ISA(attend_chunk)
    (task_, split.item, chunk.index, scratch(split.item), state);
  }

  std::size_t state_size(const AttentionItem& item) const {
    return attention_state_size(task_, item.tokens);
  }

  // Working memory of the calling thread.
  float* scratch(const AttentionItem& item) const {
    static thread_local Scratch memory;
    return memory.floats(attention_scratch_size(task_, item.tokens));
  }

  // The states of chunks: the stream thread's, filled by all.
  static float* state_memory(std::size_t floats) {
    static thread_local Scratch memory;
    return memory.floats(floats);
  }

  const AttentionTask task_;
  const int group_;
  std::vector<AttentionItem> whole_;
  std::vector<Split> splits_;
  std::vector<Chunk> chunks_;
  float* states_ = nullptr;
  std::size_t states_size_ = 0;
  std::int64_t macs_ = 0;
};

}  // namespace

std::size_t attention_state_size(const AttentionTask& task, int tokens) {
  const std::size_t wide = (task.head_dim + 15) / 16 * 16;
  const std::size_t rows = tokens * (task.heads / task.kv_heads);
  // Rounded up, so that the next one is aligned, too.
  return (rows * (wide + 17) + 15) / 16 * 16;
}

std::size_t attention_scratch_size(const AttentionTask& task, int tokens) {
  const std::size_t wide = (task.head_dim + 15) / 16 * 16;
  const std::size_t rows = tokens * (task.heads / task.kv_heads);
  return (rows + 2 * kAttentionTile) * wide +
         2 * attention_state_size(task, tokens);
}

void run_attention(const AttentionTask& task, const RaggedBatch& batch) {
  AttentionRun(task, batch).run();
}

}  // namespace reprise::kernels::cpu
