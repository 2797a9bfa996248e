#include "cache/block_pools.h"

#include <gtest/gtest.h>
#include <mlx/device.h>

#include <stdexcept>

#include "base/process_memory.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

StateLayout layout_of(int layers, int row_elements) {
  return StateLayout(layers, {{"keys", PerToken{}, row_elements, mx::float32},
                              {"index", Pooled{4}, 16, mx::bfloat16}});
}

TEST(BlockPools, ShapesFollowTheLayout) {
  mx::set_default_device(mx::Device::cpu);
  const BlockPools pools(layout_of(3, 24), 5);
  EXPECT_EQ(pools.pool(2, 0).shape(), (mx::Shape{5 * 256, 24}));
  EXPECT_EQ(pools.pool(0, 1).shape(), (mx::Shape{5 * 64, 16}));
  EXPECT_EQ(pools.pool(0, 1).dtype(), mx::bfloat16);
  EXPECT_EQ(block_bytes(pools.layout()), 3u * (256 * 24 * 4 + 64 * 16 * 2));
}

TEST(BlockPools, UntouchedMemoryIsNotResident) {
  mx::set_default_device(mx::Device::cpu);
  const std::size_t before = resident_bytes();
  const BlockPools pools(layout_of(4, 1024), 2048);  // about 8 GiB
  EXPECT_LT(resident_bytes(), before + (std::size_t{1} << 20));
  // One row, far behind 2^31 bytes: one page or two.
  auto pool = pools.pool(3, 0);
  float* last = pool.data<float>() + (std::size_t{2048} * 256 - 1) * 1024;
  for (int i = 0; i < 1024; ++i) last[i] = float(i);
  EXPECT_LT(resident_bytes(), before + (std::size_t{2} << 20));
  EXPECT_EQ(last[1023], 1023.0f);
}

TEST(BlockPools, PoolsDoNotOverlap) {
  mx::set_default_device(mx::Device::cpu);
  const BlockPools pools(layout_of(2, 8), 1);
  for (int l = 0; l < 2; ++l)
    for (int f = 0; f < 2; ++f) {
      auto pool = pools.pool(l, f);
      char* bytes = pool.data<char>();
      for (std::size_t i = 0; i < pool.nbytes(); ++i)
        bytes[i] = char(l * 2 + f + 1);
    }
  for (int l = 0; l < 2; ++l)
    for (int f = 0; f < 2; ++f) {
      auto pool = pools.pool(l, f);
      const char* bytes = pool.data<char>();
      for (std::size_t i = 0; i < pool.nbytes(); ++i)
        ASSERT_EQ(bytes[i], char(l * 2 + f + 1));
    }
}

TEST(BlockPools, SnapshotsHaveASlotEach) {
  mx::set_default_device(mx::Device::cpu);
  const BlockPools pools({{{"recurrent", Snapshot{}, 100, mx::float32},
                           {"tail", Snapshot{}, 6, mx::bfloat16}},
                          {{"keys", PerToken{}, 8, mx::float32}}},
                         2, 7);
  EXPECT_EQ(pools.pool(0, 0).shape(), (mx::Shape{7, 100}));
  EXPECT_EQ(pools.pool(0, 1).shape(), (mx::Shape{7, 6}));
  EXPECT_EQ(pools.pool(1, 0).shape(), (mx::Shape{512, 8}));
  EXPECT_EQ(block_bytes(pools.layout()), 256u * 8 * 4);
  EXPECT_EQ(snapshot_bytes(pools.layout()), 400u + 12);
}

TEST(BlockPools, RefusesCountsThatDoNotFitTheLayout) {
  EXPECT_THROW(BlockPools({{{"recurrent", Snapshot{}, 8, mx::float32}}}, 4),
               std::invalid_argument);
  EXPECT_THROW(BlockPools(layout_of(1, 8), 4, 2), std::invalid_argument);
  EXPECT_THROW(BlockPools(layout_of(1, 8), 0), std::invalid_argument);
}

}  // namespace
}  // namespace reprise
