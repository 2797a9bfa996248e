#include "kernels/state_slots.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>

namespace reprise::kernels {
namespace {

void check_cover(const char* op, const RaggedBatch& batch, int tokens) {
  int covered = 0;
  for (const RaggedSpan& span : batch.spans) {
    if (span.first_row != covered || span.row_count < 0)
      throw std::invalid_argument(
          fmt::format("[{}] a span of {} rows begins at row {} instead of {}",
                      op, span.row_count, span.first_row, covered));
    covered += span.row_count;
  }
  if (covered != tokens)
    throw std::invalid_argument(fmt::format(
        "[{}] {} rows, but the spans cover {}", op, tokens, covered));
}

}  // namespace

void check_slots(const char* op, const RaggedBatch& batch, int tokens,
                 int slots) {
  check_cover(op, batch, tokens);
  std::set<std::int32_t> written;
  for (const RaggedSpan& span : batch.spans) {
    for (std::int32_t slot : {span.slot_from, span.slot_to})
      if (slot < -1 || slot >= slots)
        throw std::invalid_argument(fmt::format(
            "[{}] slot {} is outside the pool of {} slots", op, slot, slots));
    if (span.start > 0 && span.slot_from < 0)
      throw std::invalid_argument(
          fmt::format("[{}] a span at position {} has no slot with the state "
                      "before it",
                      op, span.start));
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

}  // namespace reprise::kernels
