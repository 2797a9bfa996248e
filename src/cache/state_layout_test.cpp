#include "cache/state_layout.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

const LayerState kEveryKind = {{"keys", PerToken{}, 8, mlx::core::float32},
                               {"recent", Window{64}, 4, mlx::core::float32},
                               {"pools", Pooled{4}, 2, mlx::core::bfloat16},
                               {"sum", Snapshot{}, 100, mlx::core::float32}};

TEST(StateLayout, BytesFollowTheGrowth) {
  EXPECT_EQ(state_bytes(kEveryKind, 3), 3u * 32 + 3 * 16 + 0 + 400);
  EXPECT_EQ(state_bytes(kEveryKind, 1000),
            1000u * 32 + 64 * 16 + 250 * 4 + 400);
  EXPECT_EQ(state_bytes(StateLayout(3, kEveryKind), 3),
            3 * state_bytes(kEveryKind, 3));
}

TEST(StateLayout, TokensAndSnapshots) {
  EXPECT_EQ(token_bytes(kEveryKind), 32 + 1);
  EXPECT_EQ(snapshot_bytes(kEveryKind), 400u);
  EXPECT_EQ(snapshot_bytes({kEveryKind[0]}), 0u);
}

TEST(StateLayout, BlocksHoldNoSnapshots) {
  EXPECT_EQ(block_bytes({kEveryKind}), 256u * 32 + 256 * 16 + 64 * 4);
}

// 64 KiB a block, 400 bytes a snapshot.
TEST(ShareOut, SequencesFirstThenHalfAndHalf) {
  const StateLayout layout = {
      {{"recurrent", Snapshot{}, 100, mlx::core::float32}},
      {{"keys", PerToken{}, 64, mlx::core::float32}}};
  const auto sizes = share_out(layout, 3200 + 20 * 65536, 4);
  EXPECT_EQ(sizes.slots, 8 + 10 * 65536 / 400);
  EXPECT_EQ(sizes.blocks, 10);
  EXPECT_EQ(share_out(layout, 3199, 4).blocks, 0);
  EXPECT_EQ(share_out(layout, 3200 + 65535, 4).blocks, 0);
}

TEST(ShareOut, WithoutSnapshotsAllIsBlocks) {
  const StateLayout layout = {{{"keys", PerToken{}, 64, mlx::core::float32}}};
  EXPECT_EQ(share_out(layout, 10 * 65536 + 5, 4).blocks, 10);
  EXPECT_EQ(share_out(layout, 10 * 65536 + 5, 4).slots, 0);
}

}  // namespace
}  // namespace reprise
