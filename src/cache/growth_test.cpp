#include "cache/growth.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reprise {
namespace {

TEST(Growth, RowsAfterNTokens) {
  EXPECT_EQ(rows_at(PerToken{}, 7), (RowRange{0, 7}));
  EXPECT_EQ(rows_at(Window{4}, 3), (RowRange{0, 3}));
  EXPECT_EQ(rows_at(Window{4}, 10), (RowRange{6, 10}));
  EXPECT_EQ(rows_at(Pooled{4}, 3), (RowRange{0, 0}));
  EXPECT_EQ(rows_at(Pooled{4}, 11), (RowRange{0, 2}));
  EXPECT_EQ(rows_at(Snapshot{}, 11), (RowRange{0, 1}));
}

TEST(Growth, IsDescribed) {
  EXPECT_EQ(describe(PerToken{}), "per token");
  EXPECT_EQ(describe(Window{64}), "window of 64 tokens");
  EXPECT_EQ(describe(Pooled{4}), "pooled by 4");
  EXPECT_EQ(describe(Snapshot{}), "snapshot");
}

// Written in any cuts, the rows are those of one pass, in order, once.
TEST(Growth, CutsWriteEveryRowOnce) {
  for (const Growth& growth :
       {Growth{PerToken{}}, Growth{Window{5}}, Growth{Pooled{4}}}) {
    for (int step = 1; step <= 9; ++step) {
      int next = 0;
      for (int at = 0; at < 40; at += step) {
        const RowRange rows = rows_written(growth, at, at + step);
        EXPECT_EQ(rows.begin, next);
        next = rows.end;
      }
    }
  }
  EXPECT_EQ(rows_written(Pooled{4}, 1, 3).size(), 0);
  EXPECT_EQ(rows_written(Snapshot{}, 5, 5).size(), 0);
  EXPECT_EQ(rows_written(Snapshot{}, 5, 6).size(), 1);
}

TEST(Growth, CuttingBack) {
  EXPECT_TRUE(can_cut(PerToken{}, {0, 10}, 10, 3));
  EXPECT_FALSE(can_cut(PerToken{}, {4, 10}, 10, 3));
  EXPECT_TRUE(can_cut(PerToken{}, {4, 10}, 10, 0));  // no rows needed
  EXPECT_TRUE(can_cut(Window{4}, {4, 10}, 10, 8));
  EXPECT_FALSE(can_cut(Window{4}, {5, 10}, 10, 8));
  EXPECT_TRUE(can_cut(Pooled{4}, {0, 2}, 11, 8));
  EXPECT_FALSE(can_cut(Pooled{4}, {0, 2}, 11, 9));
  EXPECT_TRUE(can_cut(Pooled{4}, {0, 2}, 11, 11));
  EXPECT_TRUE(can_cut(Snapshot{}, {0, 1}, 11, 11));
  EXPECT_FALSE(can_cut(Snapshot{}, {0, 1}, 11, 10));
}

TEST(Growth, RowsPerBlock) {
  EXPECT_EQ(rows_per_block(PerToken{}), kBlockTokens);
  EXPECT_EQ(rows_per_block(Window{64}), kBlockTokens);
  EXPECT_EQ(rows_per_block(Pooled{4}), kBlockTokens / 4);
  EXPECT_EQ(rows_per_block(Snapshot{}), 0);
  EXPECT_THROW(rows_per_block(Pooled{3}), std::invalid_argument);
  EXPECT_THROW(rows_per_block(Window{0}), std::invalid_argument);
}

}  // namespace
}  // namespace reprise
