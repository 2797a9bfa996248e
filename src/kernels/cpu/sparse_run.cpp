#include "kernels/cpu/sparse_run.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/attention_run.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/select_best.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Tokens whose scores and lists are held at a time, and pools that a thread
// scores at a time.
constexpr std::size_t kTokensAtOnce = 16;
constexpr int kPoolsAtOnce = 1024;

// A token that selects.
struct Chooser {
  const RaggedSpan* span;
  int offset;  // in the span
  int position() const { return span->start + offset; }
  int row() const { return span->first_row + offset; }
};

class SparseRun {
 public:
  SparseRun(const AttentionTask& task, const IndexTask& index)
      : task_(task), index_(index) {}

  // The first position from which there is more than the budget.
  int first_choice() const { return (index_.keep + 1) * index_.pool - 1; }

  void run(const Chooser* begin, const Chooser* end) {
    score(begin, end);
    lists_.resize(end - begin);
    parallel_for(static_cast<int>(end - begin), [&](int i) {
      lists_[i] = list(begin[i], scores_.data() + offsets_[i]);
    });
    std::vector<AttentionItem> items;
    for (const Chooser* c = begin; c != end; ++c) {
      const auto& positions = lists_[c - begin];
      for (int head = 0; head < task_.kv_heads; ++head)
        items.push_back({.blocks = c->span->blocks.data(),
                         .positions = positions.data(),
                         .first_row = c->row(),
                         .tokens = 1,
                         .position = static_cast<int>(positions.size()) - 1,
                         .kv_head = head});
    }
    run_attention(task_, items);
  }

 private:
  struct Piece {
    const Chooser* token;
    int begin, end;  // pools
    std::size_t scores;
  };

  int complete(const Chooser& c) const {
    return (c.position() + 1) / index_.pool;
  }

  void score(const Chooser* begin, const Chooser* end) {
    std::vector<Piece> pieces;
    offsets_.clear();
    std::size_t size = 0;
    for (const Chooser* c = begin; c != end; ++c) {
      offsets_.push_back(size);
      const int pools = complete(*c);
      for (int p = 0; p < pools; p += kPoolsAtOnce)
        pieces.push_back({c, p, std::min(p + kPoolsAtOnce, pools), size + p});
      size += pools;
    }
    scores_.resize(std::max(size, scores_.size()));
    parallel_for(static_cast<int>(pieces.size()), [&](int i) {
      static thread_local Scratch memory;
      const Piece& p = pieces[i];
      REPRISE_PICK_ISA(score_pools)
      (index_, p.token->span->blocks.data(), p.token->row(), p.begin, p.end,
       memory.floats(index_scratch_size(index_)), scores_.data() + p.scores);
    });
  }

  // The positions that a token attends to, ascending.
  std::vector<std::int32_t> list(const Chooser& c, const float* scores) const {
    const int pools = complete(c);
    std::vector<std::int32_t> positions;
    for (std::int32_t p : select_best(scores, pools, index_.keep))
      for (int i = 0; i < index_.pool; ++i)
        positions.push_back(p * index_.pool + i);
    for (int p = pools * index_.pool; p <= c.position(); ++p)
      positions.push_back(p);
    return positions;
  }

  const AttentionTask& task_;
  const IndexTask& index_;
  std::vector<float> scores_;
  std::vector<std::size_t> offsets_;  // of each token in scores_
  std::vector<std::vector<std::int32_t>> lists_;
};

}  // namespace

std::size_t index_scratch_size(const IndexTask& task) {
  const std::size_t wide = (task.dim + 15) / 16 * 16;
  return task.heads * (wide + kIndexTile) + wide * kIndexTile;
}

void run_sparse_attention(const AttentionTask& task, const IndexTask& index,
                          const RaggedBatch& batch) {
  SparseRun run(task, index);
  std::vector<AttentionItem> dense;
  std::vector<Chooser> choosers;
  for (const RaggedSpan& span : batch.spans) {
    const int plain =
        std::clamp(run.first_choice() - span.start, 0, span.row_count);
    add_items(task, span, plain, dense);
    for (int i = plain; i < span.row_count; ++i) choosers.push_back({&span, i});
  }
  run_attention(task, dense);
  for (std::size_t i = 0; i < choosers.size(); i += kTokensAtOnce)
    run.run(choosers.data() + i,
            choosers.data() + std::min(i + kTokensAtOnce, choosers.size()));
}

}  // namespace reprise::kernels::cpu
