#include "kernels/cpu/index_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/limits.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::cpu {
namespace {

// Pools that a thread computes at a time.
constexpr int kPoolsAtOnce = 64;

class SpanRows {
 public:
  SpanRows(const IndexRows& rows, const RaggedSpan& span)
      : rows_(rows), span_(span), pool_(rows.pooling.pool) {}

  // Pools [first, end) become complete in this step.
  int first_pool() const { return span_.start / pool_; }
  int end_pool() const { return span_.length_after() / pool_; }

  void write_pool(int p) const {
    std::vector<const char*> keys(pool_), gates(pool_);
    for (int i = 0; i < pool_; ++i) {
      keys[i] = key(p * pool_ + i);
      gates[i] = gate(p * pool_ + i);
    }
    const int in_block = kBlockTokens / pool_;
    const std::int64_t row =
        std::int64_t{span_.blocks[p / in_block]} * in_block + p % in_block;
    REPRISE_PICK_ISA(pool_rows)
    (rows_.pooling, keys.data(), gates.data(),
     rows_.pooled + row * rows_.row_bytes);
  }

  void write_rest() const {
    if (span_.slot_to < 0) return;
    char* to = slot(span_.slot_to);
    for (int p = end_pool() * pool_; p < span_.length_after(); ++p) {
      std::memcpy(to, key(p), rows_.row_bytes);
      std::memcpy(to + rows_.row_bytes, gate(p), rows_.row_bytes);
      to += 2 * rows_.row_bytes;
    }
    // The slot is a value of its own: nothing of an earlier one in it.
    std::memset(to, 0, static_cast<std::size_t>(slot(span_.slot_to + 1) - to));
  }

 private:
  char* slot(int i) const {
    return rows_.partial + i * (pool_ - 1) * 2 * rows_.row_bytes;
  }
  // Rows of earlier steps are those of the pool in which the span begins.
  const char* earlier(int position) const {
    return slot(span_.slot_from) +
           (position - first_pool() * pool_) * 2 * rows_.row_bytes;
  }
  const char* key(int position) const {
    const int i = position - span_.start;
    return i < 0
               ? earlier(position)
               : rows_.keys.data + (span_.first_row + i) * rows_.keys.row_bytes;
  }
  const char* gate(int position) const {
    const int i = position - span_.start;
    return i < 0 ? earlier(position) + rows_.row_bytes
                 : rows_.gates.data +
                       (span_.first_row + i) * rows_.gates.row_bytes;
  }

  const IndexRows& rows_;
  const RaggedSpan& span_;
  const int pool_;
};

}  // namespace

void write_index_rows(const IndexRows& rows, const RaggedBatch& batch) {
  const int pool = rows.pooling.pool;
  for (const RowCopy& c : batch.copies)
    std::memmove(rows.pooled + c.to_row / pool * rows.row_bytes,
                 rows.pooled + c.from_row / pool * rows.row_bytes,
                 c.rows / pool * rows.row_bytes);
  for (const RaggedSpan& span : batch.spans) {
    if (span.row_count == 0) continue;
    const SpanRows run(rows, span);
    const int first = run.first_pool(), end = run.end_pool();
    const auto some = [&](int i) {
      const int begin = first + i * kPoolsAtOnce;
      for (int p = begin; p < std::min(begin + kPoolsAtOnce, end); ++p)
        run.write_pool(p);
    };
    const int pieces = (end - first + kPoolsAtOnce - 1) / kPoolsAtOnce;
    if (pieces == 1)
      some(0);
    else if (pieces > 1)
      parallel_for(pieces, some);
    run.write_rest();
  }
}

}  // namespace reprise::kernels::cpu
