#include "engine/stored_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace reprise {
namespace {

namespace mx = mlx::core;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const StateLayout kLayout = {{{"latent", PerToken{}, 512, mx::bfloat16, 512},
                              {"rope_key", PerToken{}, 32, mx::bfloat16, 32},
                              {"index", Pooled{4}, 128, mx::bfloat16},
                              {"recurrent", Snapshot{}, 4096, mx::float32}},
                             {{"keys", Window{64}, 128, mx::bfloat16, 64}}};

TEST(StoredLayout, IsTheModelsUnlessAskedFor) {
  const auto layout = stored_layout(kLayout, {});
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer) EXPECT_FALSE(family.quantized);
  EXPECT_TRUE(plain_parts(layout, {}).empty());
}

TEST(StoredLayout, QuantizesWhatAttentionReads) {
  const KvQuantization kv{.bits = 8};
  const auto layout = stored_layout(kLayout, kv);
  EXPECT_TRUE(layout[0][0].quantized && layout[1][0].quantized);
  EXPECT_FALSE(layout[0][1].quantized);  // 32 are no group of 64
  EXPECT_FALSE(layout[0][2].quantized || layout[0][3].quantized);
  EXPECT_EQ(layout[0][0].row_bytes(), 512u + 8 * 2 * 2);
  EXPECT_THAT(plain_parts(layout, kv),
              ElementsAre("rope_key (a row of 32 is no multiple of 64)"));
}

TEST(StoredLayout, TheStartIsAWholeBlock) {
  for (const auto& [start, from] : {std::pair{0, 0}, {1, 256}, {256, 256}}) {
    const auto layout = stored_layout(kLayout, {.bits = 4, .start = start});
    EXPECT_EQ(layout[0][0].quantized->from, from);
  }
}

// Bytes at a length are exact; a block has room for either form.
TEST(StoredLayout, BytesOnBothSidesOfTheStart) {
  const auto layout = stored_layout(kLayout, {.bits = 4, .start = 256});
  const StateFamily& latent = layout[0][0];
  const std::size_t plain = 1024, packed = 256 + 8 * 2 * 2;
  EXPECT_EQ(latent.bytes_of({0, 256}), 256 * plain);
  EXPECT_EQ(latent.bytes_of({0, 300}), 256 * plain + 44 * packed);
  EXPECT_EQ(latent.bytes_of({280, 300}), 20 * packed);
  const StateLayout alone = {{latent}};
  EXPECT_EQ(block_bytes(alone), 256 * (plain + packed));
  EXPECT_EQ(token_bytes(alone[0]), double(packed));
}

TEST(StoredLayout, RefusesByTheFlagsName) {
  const auto refusal = [](const KvQuantization& kv) -> std::string {
    try {
      stored_layout(kLayout, kv);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_THAT(refusal({.bits = 3}), HasSubstr("--kv-bits is 3"));
  EXPECT_THAT(refusal({.bits = 8, .group_size = 48}),
              HasSubstr("--kv-group-size is 48"));
  EXPECT_THAT(refusal({.bits = 8, .start = -1}),
              HasSubstr("--quantized-kv-start is -1"));
}

}  // namespace
}  // namespace reprise
