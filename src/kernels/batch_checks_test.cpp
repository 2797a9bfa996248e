#include "kernels/batch_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace reprise::kernels {
namespace {

using testing::HasSubstr;

// What a check throws, or "" where it does not.
template <typename Check>
std::string refusal(const Check& check) {
  try {
    check();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

// Two spans of two rows each: one from nothing, one inside a sequence.
RaggedBatch two_spans() {
  RaggedBatch batch;
  batch.tokens = 4;
  batch.spans = {{.first_row = 0, .row_count = 2, .blocks = {0}, .slot_to = 1},
                 {.first_row = 2,
                  .row_count = 2,
                  .start = 255,
                  .blocks = {3, 2},
                  .slot_from = 0,
                  .slot_to = 2}};
  return batch;
}

TEST(BatchChecks, SpansCoverTheRows) {
  const auto cover = [](const RaggedBatch& batch, int tokens) {
    return refusal([&] { check_cover("op", batch, tokens); });
  };
  auto batch = two_spans();
  EXPECT_EQ(cover(batch, 4), "");
  EXPECT_EQ(cover(batch, 5), "[op] 5 rows, but the spans cover 4");
  batch.spans[1].first_row = 3;
  EXPECT_THAT(cover(batch, 4), HasSubstr("begins at row 3 instead of 2"));
  batch = two_spans();
  batch.spans[1].start = -1;
  EXPECT_THAT(cover(batch, 4), HasSubstr("at position -1"));
}

TEST(BatchChecks, TablesReachToTheEndAndNameBlocks) {
  const auto blocks = [](const RaggedSpan& span, int first, int count) {
    return refusal([&] { check_blocks("op", span, first, count); });
  };
  RaggedSpan span = two_spans().spans[1];
  EXPECT_EQ(blocks(span, 0, 4), "");
  EXPECT_THAT(blocks(span, 0, 3), HasSubstr("block 3 is outside"));
  EXPECT_EQ(blocks(span, 256, 3), "");  // the first is not read
  span.blocks.pop_back();
  EXPECT_EQ(blocks(span, 0, 4), "[op] 1 blocks for a length of 257");
}

TEST(BatchChecks, AWrittenSlotIsNobodyElses) {
  const auto slots = [](const RaggedBatch& batch, int count) {
    return refusal([&] { check_slots("op", batch, count); });
  };
  auto batch = two_spans();
  EXPECT_EQ(slots(batch, 3), "");
  EXPECT_THAT(slots(batch, 2), HasSubstr("slot 2 is outside"));
  batch.spans[1].slot_to = 1;
  EXPECT_THAT(slots(batch, 3), HasSubstr("two spans write slot 1"));
  batch = two_spans();
  batch.spans[1].slot_from = 1;
  EXPECT_THAT(slots(batch, 3), HasSubstr("slot 1 is read and written"));
  batch.spans[1].slot_from = 2;
  EXPECT_THAT(slots(batch, 3), HasSubstr("slot 2 is read and written"));
}

TEST(BatchChecks, OnlyABeginningGoesOnFromNothing) {
  auto batch = two_spans();
  check_carried("op", batch, 4, 3);
  batch.spans[1].slot_from = -1;
  EXPECT_THAT(refusal([&] { check_carried("op", batch, 4, 3); }),
              HasSubstr("position 255 has no slot"));
}

}  // namespace
}  // namespace reprise::kernels
