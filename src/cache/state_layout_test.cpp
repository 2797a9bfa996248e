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

}  // namespace
}  // namespace reprise
