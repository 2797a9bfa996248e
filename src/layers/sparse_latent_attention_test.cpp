#include "layers/sparse_latent_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;
using testing::checkpoint_of;
using ::testing::HasSubstr;
using testing::Tensors;
using testing::thrown_by;

const json kConfig = {{"index_head_dim", 128},
                      {"index_n_heads", 32},
                      {"index_kpool", 4},
                      {"index_topk", 2048}};

json with(const char* key, const json& value) {
  json config = kConfig;
  config[key] = value;
  return config;
}

TEST(SparseLatentAttention, ReadsTheIndex) {
  const auto shape = index_shape(kConfig);
  EXPECT_EQ(shape.heads, 32);
  EXPECT_EQ(shape.dim, 128);
  EXPECT_EQ(shape.pool, 4);
  EXPECT_EQ(shape.budget, 2048);
  EXPECT_FLOAT_EQ(shape.scale, 0.088388348f);
}

TEST(SparseLatentAttention, RefusesOtherIndicesByName) {
  const auto refusal = [](const char* key, const json& value) {
    return thrown_by([&] { index_shape(with(key, value)); });
  };
  EXPECT_THAT(refusal("index_kpool", 3), HasSubstr("\"index_kpool\" is 3"));
  EXPECT_THAT(refusal("index_kpool", 1), HasSubstr("\"index_kpool\" is 1"));
  EXPECT_THAT(refusal("index_topk", 2), HasSubstr("\"index_topk\" is 2"));
  EXPECT_THAT(refusal("index_kpool_compress", false),
              HasSubstr("\"index_kpool_compress\" is false"));
  EXPECT_THAT(refusal("index_kpool_always_select_tail", false),
              HasSubstr("\"index_kpool_always_select_tail\" is false"));
  EXPECT_THAT(refusal("index_topk_freq", 4),
              HasSubstr("\"index_topk_freq\" is 4"));
  EXPECT_EQ(refusal("index_topk_freq", nullptr), "");
}

TEST(SparseLatentAttention, RefusesPositions) {
  const auto checkpoint = checkpoint_of({{"a", mx::zeros({1})}});
  EXPECT_THAT(thrown_by([&] {
                load_sparse_latent_attention(*checkpoint, "a", {.rope = 64},
                                             index_shape(kConfig), 64, 1e-5f);
              }),
              HasSubstr("\"qk_rope_head_dim\" is 64"));
}

// Of the published shape, in bfloat16.
TEST(SparseLatentAttention, State) {
  const LatentHeads heads{.latent = 512};
  const auto state =
      sparse_latent_state(heads, index_shape(kConfig), mx::bfloat16);
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(token_bytes(state), 1024.0 + 64.0);
  EXPECT_EQ(snapshot_bytes(state), 3u * 256 * 2);
  EXPECT_EQ(state_bytes(state, 3), 3u * 1024 + 3 * 256 * 2);  // no pool yet
}

}  // namespace
}  // namespace reprise
