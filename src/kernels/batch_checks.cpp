#include "kernels/batch_checks.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>

#include "base/limits.h"

namespace reprise::kernels {

void check_cover(const char* op, const RaggedBatch& batch, int tokens) {
  int covered = 0;
  for (const RaggedSpan& span : batch.spans) {
    if (span.first_row != covered || span.row_count < 0 || span.start < 0)
      throw std::invalid_argument(fmt::format(
          "[{}] a span of {} rows at position {} begins at row {} instead of "
          "{}",
          op, span.row_count, span.start, span.first_row, covered));
    covered += span.row_count;
  }
  if (covered != tokens)
    throw std::invalid_argument(fmt::format(
        "[{}] {} rows, but the spans cover {}", op, tokens, covered));
}

void check_blocks(const char* op, const RaggedSpan& span, int first_position,
                  std::int64_t blocks) {
  const auto need = static_cast<std::size_t>(blocks_for(span.length_after()));
  if (span.blocks.size() < need)
    throw std::invalid_argument(fmt::format("[{}] {} blocks for a length of {}",
                                            op, span.blocks.size(),
                                            span.length_after()));
  for (std::size_t i = first_position / kBlockTokens; i < need; ++i)
    if (span.blocks[i] < 0 || span.blocks[i] >= blocks)
      throw std::invalid_argument(
          fmt::format("[{}] block {} is outside the pool of {} blocks", op,
                      span.blocks[i], blocks));
}

void check_slots(const char* op, const RaggedBatch& batch, int slots) {
  std::set<std::int32_t> written;
  for (const RaggedSpan& span : batch.spans) {
    for (std::int32_t slot : {span.slot_from, span.slot_to})
      if (slot < -1 || slot >= slots)
        throw std::invalid_argument(fmt::format(
            "[{}] slot {} is outside the pool of {} slots", op, slot, slots));
    if (span.slot_to >= 0 && !written.insert(span.slot_to).second)
      throw std::invalid_argument(
          fmt::format("[{}] two spans write slot {}", op, span.slot_to));
  }
  for (const RaggedSpan& span : batch.spans)
    if (written.count(span.slot_from) != 0)
      throw std::invalid_argument(
          fmt::format("[{}] slot {} is read and written in one step; a span "
                      "goes on in another slot",
                      op, span.slot_from));
}

void check_carried(const char* op, const RaggedBatch& batch, int tokens,
                   int slots) {
  check_cover(op, batch, tokens);
  check_slots(op, batch, slots);
  for (const RaggedSpan& span : batch.spans)
    if (span.start > 0 && span.slot_from < 0)
      throw std::invalid_argument(
          fmt::format("[{}] a span at position {} has no slot with the state "
                      "before it",
                      op, span.start));
}

}  // namespace reprise::kernels
