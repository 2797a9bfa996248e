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
// there are heads of keys, at most. Where there is too little to share
// otherwise, so may those of one token, however many heads it has.
constexpr int kSplitRows = 16;
constexpr int kItemsPerThread = 4;

// All states of split items together: 64 MiB.
constexpr std::size_t kStateFloatsMax = std::size_t{16} << 20;

// Below this many multiply-adds, threads cost more than they bring (some
// 30 µs of one thread).
constexpr std::int64_t kParallelMacs = 1'000'000;

// The first position that an item reads.
int first_seen(const AttentionTask& task, const AttentionItem& item) {
  return task.window > 0 ? std::max(0, item.position - task.window + 1) : 0;
}

// One attention in pieces for threads. Which pieces there are never shows in
// the result.
class AttentionRun {
 public:
  AttentionRun(const AttentionTask& task,
               const std::vector<AttentionItem>& items)
      : task_(task),
        group_(task.heads / task.kv_heads),
        few_(items.size() <
             static_cast<std::size_t>(kItemsPerThread * thread_count())) {
    for (const AttentionItem& item : items) add_item(item);
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
    (task_, split.item, states_ + split.states, scratch(split.item));
  }

 private:
  struct Split {
    AttentionItem item;
    std::size_t states;  // where they begin in states_
  };
  struct Chunk {
    int split;
    int index;          // of the sequence's chunks
    std::size_t state;  // where it belongs in states_
  };

  void add_item(const AttentionItem& item) {
    const int rows = item.tokens * group_;
    const int seen = item.position + item.tokens - first_seen(task_, item);
    macs_ += std::int64_t{rows} * seen * (task_.key_dim + task_.value_dim);
    const ChunkRange chunks = chunks_of(task_, item);
    const int count = chunks.end - chunks.first;
    const std::size_t size = attention_state_size(task_, item.tokens);
    const bool small = rows <= kSplitRows || (few_ && item.tokens == 1);
    if (count == 1 || !small || states_size_ + count * size > kStateFloatsMax) {
      whole_.push_back(item);
      return;
    }
    const int split = static_cast<int>(splits_.size());
    splits_.push_back({item, states_size_});
    for (int i = chunks.first; i < chunks.end; ++i) {
      chunks_.push_back({split, i, states_size_});
      states_size_ += size;
    }
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
    const AttentionItem& item = splits_[chunk.split].item;
    REPRISE_PICK_ISA(attend_chunk)
    (task_, item, chunk.index, scratch(item), states_ + chunk.state);
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
  const bool few_;
  std::vector<AttentionItem> whole_;
  std::vector<Split> splits_;
  std::vector<Chunk> chunks_;
  float* states_ = nullptr;
  std::size_t states_size_ = 0;
  std::int64_t macs_ = 0;
};

}  // namespace

void lay_out(AttentionTask& task) {
  const auto wide = [](int dim) { return (dim + 15) / 16 * 16; };
  task.key_wide = wide(task.key_dim);
  task.value_wide = wide(task.value_dim);
  task.loose_wide = 0;
  for (int i = 0; i < task.key_parts; ++i)
    if (task.keys[i].quantized != nullptr)
      task.loose_wide = std::max(task.loose_wide, wide(task.keys[i].dim));
}

ChunkRange chunks_of(const AttentionTask& task, const AttentionItem& item) {
  const int end = item.position + item.tokens;
  return {first_seen(task, item) / kAttentionChunk,
          (end + kAttentionChunk - 1) / kAttentionChunk};
}

std::size_t attention_state_size(const AttentionTask& task, int tokens) {
  const std::size_t rows = tokens * (task.heads / task.kv_heads);
  // Rounded up, so that the next one is aligned, too.
  return (rows * (task.value_wide + 17) + 15) / 16 * 16;
}

std::size_t attention_scratch_size(const AttentionTask& task, int tokens) {
  const std::size_t rows = tokens * (task.heads / task.kv_heads);
  const std::size_t tile_row =
      task.key_wide + 16 + task.value_wide + task.loose_wide;
  return rows * task.key_wide + kAttentionTile * tile_row +
         2 * attention_state_size(task, tokens);
}

void run_attention(const AttentionTask& task,
                   const std::vector<AttentionItem>& items) {
  AttentionRun(task, items).run();
}

void add_items(const AttentionTask& task, const RaggedSpan& span, int rows,
               std::vector<AttentionItem>& items) {
  const int tokens = std::max(1, kItemRows / (task.heads / task.kv_heads));
  for (int begin = 0; begin < rows; begin += tokens)
    for (int head = 0; head < task.kv_heads; ++head)
      items.push_back({.blocks = span.blocks.data(),
                       .positions = nullptr,
                       .first_row = span.first_row + begin,
                       .tokens = std::min(tokens, rows - begin),
                       .position = span.start + begin,
                       .kv_head = head});
}

void run_attention(const AttentionTask& task, const RaggedBatch& batch) {
  std::vector<AttentionItem> items;
  for (const RaggedSpan& span : batch.spans)
    add_items(task, span, span.row_count, items);
  run_attention(task, items);
}

}  // namespace reprise::kernels::cpu
