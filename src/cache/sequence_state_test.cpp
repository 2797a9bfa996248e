#include "cache/sequence_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/device.h>

#include <algorithm>
#include <cstring>

namespace reprise {
namespace {

namespace mx = mlx::core;
using testing::AllOf;
using testing::HasSubstr;

// Every growth, in two dtypes; what a recurrent layer and a pooled one keep.
const StateLayout kLayout = {
    {{"keys", PerToken{}, 6, mx::float32}, {"near", Window{5}, 4, mx::float16}},
    {{"index", Pooled{4}, 8, mx::bfloat16},
     {"partial", Snapshot{}, 10, mx::float32}}};

constexpr char kStale = '\xff';  // NaN, in every dtype
constexpr int kLengths[] = {0, 1, 3, 4, 5, 63, 64, 65, 255, 256, 257, 811};

char* row_of(const BlockPools& pools, const SequenceState& state, int l, int f,
             int row) {
  auto pool = pools.pool(l, f);
  const StateFamily& family = pools.layout()[l][f];
  const int per_block = rows_per_block(family.growth);
  const int at = per_block == 0 ? state.slot
                                : state.blocks[row / per_block] * per_block +
                                      row % per_block;
  return pool.data<char>() + std::size_t(at) * family.row_bytes();
}

char value_of(int l, int f, int row) {
  return char((row * 7 + l * 3 + f) % 250);
}

// Pools full of NaN, but for the rows that a state of this length has.
struct Filled {
  BlockPools pools{kLayout, 8, 4};
  SequenceState state{.blocks = {5, 2, 7, 0}, .slot = 3};

  explicit Filled(int length) {
    state.length = length;
    poison();
    each_row([](char* at, std::size_t bytes, char value) {
      std::memset(at, value, bytes);
    });
  }
  void poison() {
    for (std::size_t l = 0; l < kLayout.size(); ++l)
      for (std::size_t f = 0; f < kLayout[l].size(); ++f) {
        auto pool = pools.pool(l, f);
        std::memset(pool.data<char>(), kStale, pool.nbytes());
      }
  }
  template <typename Each>
  std::size_t each_row(Each each) {
    std::size_t total = 0;
    if (state.length == 0) return 0;
    for (int l = 0; l < int(kLayout.size()); ++l)
      for (int f = 0; f < int(kLayout[l].size()); ++f) {
        const auto rows = rows_at(kLayout[l][f].growth, state.length);
        for (int r = rows.begin; r < rows.end; ++r) {
          const std::size_t bytes = kLayout[l][f].row_bytes();
          each(row_of(pools, state, l, f, r), bytes, value_of(l, f, r));
          total += bytes;
        }
      }
    return total;
  }
  std::size_t stale_bytes() {
    std::size_t count = 0;
    for (std::size_t l = 0; l < kLayout.size(); ++l)
      for (std::size_t f = 0; f < kLayout[l].size(); ++f) {
        auto pool = pools.pool(l, f);
        count += std::count(pool.data<char>(),
                            pool.data<char>() + pool.nbytes(), kStale);
      }
    return count;
  }
  std::size_t all_bytes() const {
    return 8 * block_bytes(kLayout) + 4 * snapshot_bytes(kLayout);
  }
};

std::string rows_part(const std::string& bytes) {
  std::uint32_t header = 0;
  std::memcpy(&header, bytes.data() + 12, 4);
  return bytes.substr(16 + header);
}

class SequenceStateAt : public testing::TestWithParam<int> {
 protected:
  SequenceStateAt() { mx::set_default_device(mx::Device::cpu); }
};

TEST_P(SequenceStateAt, IsSavedAndLoadedWithoutAStaleRow) {
  const int length = GetParam();
  Filled from(length), to(length);
  const std::string bytes = to_bytes(from.pools, from.state);
  const std::string rows = rows_part(bytes);
  const std::size_t expected = length == 0 ? 0 : state_bytes(kLayout, length);
  EXPECT_EQ(rows.size(), expected);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), kStale), 0);

  to.poison();
  const auto loaded =
      from_bytes(bytes, to.pools, {.blocks = {1, 6, 3, 4}, .slot = 0});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->length, length);
  EXPECT_EQ(int(loaded->blocks.size()), (length + 255) / 256);
  to.state = *loaded;
  const std::size_t written =
      to.each_row([](char* at, std::size_t size, char value) {
        for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(at[i], value);
      });
  EXPECT_EQ(to.stale_bytes(), to.all_bytes() - written);  // nothing else
  EXPECT_EQ(to_bytes(to.pools, *loaded), bytes);
}

TEST_P(SequenceStateAt, BlocksAndTheSnapshotAreItsBytes) {
  const int length = GetParam();
  std::size_t bytes = length > 0 ? snapshot_bytes(kLayout) : 0;
  for (int b = 0; b * kBlockTokens < length; ++b)
    bytes += bytes_of_block(kLayout, length, b);
  EXPECT_EQ(bytes, length > 0 ? state_bytes(kLayout, length) : 0);
}

// One byte short at any place names the family that lost it; one byte more is
// named, too. Nothing is written.
TEST_P(SequenceStateAt, OtherSizesAreRefused) {
  const Filled from(GetParam());
  const std::string bytes = to_bytes(from.pools, from.state);
  Filled to(0);
  const SequenceState into{.blocks = {1, 6, 3, 4}, .slot = 0};
  const std::size_t step = std::max<std::size_t>(1, bytes.size() / 300);
  for (std::size_t size = 0; size < bytes.size(); size += step) {
    const auto cut =
        from_bytes(std::string_view(bytes).substr(0, size), to.pools, into);
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().kind, ErrorKind::corrupt);
  }
  const auto longer = from_bytes(bytes + "x", to.pools, into);
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("behind "));
  EXPECT_EQ(to.stale_bytes(), to.all_bytes());
  if (GetParam() == 0) return;
  const auto shorter =
      from_bytes({bytes.data(), bytes.size() - 1}, to.pools, into);
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().message,
              HasSubstr("layer 1, \"partial\": 39 of 40 bytes"));
}

INSTANTIATE_TEST_SUITE_P(Lengths, SequenceStateAt, testing::ValuesIn(kLengths));

TEST(SequenceState, AnotherLayoutIsRefusedByName) {
  mx::set_default_device(mx::Device::cpu);
  const Filled from(300);
  const std::string bytes = to_bytes(from.pools, from.state);
  const auto message = [&](auto change) {
    StateLayout other = kLayout;
    change(other);
    const BlockPools pools(other, 8, 4);
    const auto loaded = from_bytes(bytes, pools, {.blocks = {1, 6}, .slot = 0});
    return loaded ? std::string() : loaded.error().message;
  };
  EXPECT_THAT(message([](auto& l) { l[0][1].name = "far"; }),
              AllOf(HasSubstr("layer 0, \"far\""), HasSubstr("name \"near\"")));
  EXPECT_THAT(message([](auto& l) { l[0][1].growth = Window{6}; }),
              AllOf(HasSubstr("\"near\""), HasSubstr("window of 5 tokens"),
                    HasSubstr("window of 6 tokens")));
  EXPECT_THAT(message([](auto& l) { l[1][0].dtype = mx::float16; }),
              AllOf(HasSubstr("layer 1, \"index\""), HasSubstr("\"bfloat16\""),
                    HasSubstr("\"float16\"")));
  EXPECT_THAT(
      message([](auto& l) { l[0][0].row_elements = 12; }),
      AllOf(HasSubstr("\"keys\""), HasSubstr("row 6"), HasSubstr("has 12")));
  EXPECT_THAT(message([](auto& l) { l[0].pop_back(); }),
              HasSubstr("layer 0: saved with 2 families, this model has 1"));
  EXPECT_THAT(message([](auto& l) { l.push_back(l[0]); }),
              HasSubstr("saved with 2 layers, this model has 3"));
  EXPECT_EQ(message([](auto&) {}), "");
}

// A layout whose first block is plain and whose others are in 8 bits.
TEST(SequenceState, QuantizedRowsAreSavedAsStored) {
  mx::set_default_device(mx::Device::cpu);
  const StateLayout plain = {{{"keys", PerToken{}, 64, mx::float32, 64}}};
  const StateLayout late =
      quantized_layout(plain, {.codec = {}, .from = kBlockTokens});
  const BlockPools a(late, 4), b(late, 4);
  for (const auto* pools : {&a, &b}) {
    auto rows = pools->rows(0, 0);
    for (mx::array* pool : {&rows.plain, &*rows.quantized})
      for (std::size_t i = 0; i < pool->nbytes(); ++i)
        pool->data<char>()[i] = char((i / 7 + (pools == &a)) % 120);
  }
  const SequenceState from{.blocks = {3, 1}, .length = 300};
  const std::string bytes = to_bytes(a, from);
  EXPECT_EQ(rows_part(bytes).size(), 256u * 256 + 44 * (64 + 8));
  const auto to = from_bytes(bytes, b, {.blocks = {0, 2}});
  ASSERT_TRUE(to) << to.error().message;
  EXPECT_EQ(to_bytes(b, *to), bytes);

  const BlockPools other(plain, 4);
  const auto refused = from_bytes(bytes, other, {.blocks = {0, 1}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(
      refused.error().message,
      AllOf(HasSubstr("\"keys\""), HasSubstr("8 bits in groups of 64 from 256"),
            HasSubstr("\"plain\"")));
}

TEST(SequenceState, HostileHeadersAreRefused) {
  mx::set_default_device(mx::Device::cpu);
  const Filled from(300);
  const std::string bytes = to_bytes(from.pools, from.state);
  Filled to(0);
  const auto message = [&](std::string from, std::string_view by) {
    std::string changed = bytes;
    const auto at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, by.size(), by);
    const auto loaded =
        from_bytes(changed, to.pools, {.blocks = {1, 6, 3, 4}, .slot = 0});
    return loaded ? std::string() : loaded.error().message;
  };
  EXPECT_THAT(message("RPRSTATE", "RPRSTATF"), HasSubstr("no saved state"));
  EXPECT_THAT(message("RPRSTATE", {"RPRSTATE\x02", 9}),
              HasSubstr("format 2, this build reads 1"));
  EXPECT_THAT(message("RPRSTATE", {"RPRSTATE\x01\0\0\0\xff\xff\xff\x7f", 16}),
              HasSubstr("a header of 2147483647 bytes"));
  EXPECT_THAT(message("{\"block", "[\"block"), HasSubstr("no JSON object"));
  EXPECT_THAT(message(":256", ":128"), HasSubstr("blocks of 128 tokens"));
  EXPECT_THAT(message("\"length\":300", "\"length\":-30"), HasSubstr("-30"));
  EXPECT_THAT(message("\"length\":300", "\"length\":3e9"),
              HasSubstr("3000000"));
  EXPECT_THAT(message("\"length\":300", "\"length\":301"), HasSubstr("bytes"));
  EXPECT_THAT(message("\"row\":6", "\"row\":7"), HasSubstr("\"keys\""));
  EXPECT_EQ(to.stale_bytes(), to.all_bytes());
  EXPECT_EQ(message("RPRSTATE", ""), "");
}

TEST(SequenceState, TooFewBlocksAreSaid) {
  mx::set_default_device(mx::Device::cpu);
  const Filled from(300);
  const auto loaded = from_bytes(to_bytes(from.pools, from.state), from.pools,
                                 {.blocks = {1}, .slot = 0});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::too_large);
  EXPECT_THAT(loaded.error().message, HasSubstr("300 tokens need 2 blocks"));
}

TEST(SequenceState, WhatForbidsACutIsNamed) {
  const SequenceState computed{.length = 300},
      restored{.length = 300, .restored = 300};
  const StateLayout tokens = {{kLayout[0][0]}}, window = {{kLayout[0][1]}},
                    pooled = {{kLayout[1][0]}};
  for (const int to : {0, 1, 299, 300})
    EXPECT_TRUE(cut_to(tokens, restored, to).possible) << to;
  EXPECT_TRUE(cut_to(window, computed, 7).possible);
  EXPECT_FALSE(cut_to(window, restored, 299).possible);
  EXPECT_TRUE(cut_to(window, restored, 0).possible);
  EXPECT_TRUE(cut_to(pooled, restored, 296).possible);
  EXPECT_EQ(cut_to(pooled, restored, 297).reason,
            "layer 0, \"index\" (pooled by 4) cannot go from 300 to 297 "
            "tokens");
  EXPECT_THAT(cut_to(kLayout, computed, 296).reason,
              HasSubstr("layer 1, \"partial\" (snapshot)"));
  EXPECT_TRUE(cut_to(kLayout, computed, 300).possible);
  EXPECT_TRUE(cut_to(kLayout, computed, 0).possible);
  EXPECT_THAT(cut_to(tokens, computed, 301).reason, HasSubstr("the 300 there"));
  EXPECT_FALSE(cut_to(tokens, computed, -1).possible);
}

}  // namespace
}  // namespace reprise
