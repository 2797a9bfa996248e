#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/fault.h"
#include "kernels/plain.h"
#include "kernels/recurrence.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::slot_spans;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kTaps = 4;
constexpr int kChannels = 37;

array nan_pool(int slots, mx::Dtype dtype = mx::float32,
               int channels = kChannels, int taps = kTaps) {
  const int size = (taps - 1) * channels;
  return make_array(std::vector<float>(std::size_t(slots) * size, kNan),
                    {slots, size}, dtype);
}

array random_rows(int rows, std::uint64_t seed, mx::Dtype dtype = mx::float32,
                  int channels = kChannels) {
  return make_array(random_floats(std::size_t(rows) * channels, seed),
                    {rows, channels}, dtype);
}

array rows_of(const array& x, int begin, int end) {
  return mx::slice(x, {begin, 0}, {end, x.shape(1)});
}

// A row in front of the first is zeros.
TEST(ShortConv, IsTheChainOverAscendingTaps) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
    for (int taps : {2, 4, 8}) {
      const auto x = random_rows(11, 1, dtype);
      const auto weight = random_rows(taps, 2, dtype);
      const auto in = values_of(x), w = values_of(weight);
      std::vector<float> want;
      for (int t = 0; t < 11; ++t)
        for (int c = 0; c < kChannels; ++c) {
          float total = 0;
          for (int j = 0; j < taps; ++j) {
            const int row = t - taps + 1 + j;
            total = std::fma(w[j * kChannels + c],
                             row < 0 ? 0 : in[row * kChannels + c], total);
          }
          want.push_back(total);
        }
      const auto rounded = bytes_of(make_array(want, {11, kChannels}, dtype));
      with_every_isa([&] {
        const auto pool = nan_pool(1, dtype, kChannels, taps);
        const auto out =
            short_conv(x, weight, pool, slot_spans({{11, -1, 0}}), false);
        EXPECT_TRUE(bytes_of(out.rows) == rounded);
        EXPECT_EQ(bytes_of(pool), row_bytes_of(x, 12 - taps, taps - 1));
      });
    }
}

TEST(ShortConv, EqualsItsPlainComposition) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
    for (bool silu : {false, true}) {
      const auto x = random_rows(9, 3, dtype);
      const auto tail = random_rows(kTaps - 1, 4, dtype);
      const auto weight = random_rows(kTaps, 5);
      const auto pool =
          mx::contiguous(mx::reshape(tail, {1, (kTaps - 1) * kChannels}));
      const auto both = mx::contiguous(mx::concatenate({pool, pool}, 0));
      mx::eval(both);
      const auto ours =
          short_conv(x, weight, both, slot_spans({{9, 0, 1}}), silu);
      const auto plain = plain::short_conv(x, weight, tail, silu);
      const auto a = values_of(ours.rows), b = values_of(plain.rows);
      const double rounding = dtype == mx::bfloat16  ? 0x1p-8
                              : dtype == mx::float16 ? 0x1p-11
                                                     : 0;
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 4 * (12 * 0x1p-24 + rounding));
      EXPECT_EQ(row_bytes_of(ours.pool, 1, 1), bytes_of(plain.pool));
    }
}

// Rows and last tail of a sequence cut at these places.
std::vector<std::uint8_t> cut_at(const array& x, const array& weight,
                                 const std::vector<int>& cuts) {
  const auto pool = nan_pool(2, x.dtype(), x.shape(1));
  std::vector<std::uint8_t> all;
  int slot = -1, begin = 0;
  for (int end : cuts) {
    const int next = slot == 0 ? 1 : 0;
    const auto out = short_conv(rows_of(x, begin, end), weight, pool,
                                slot_spans({{end - begin, slot, next}}), true);
    for (float v : values_of(out.rows)) EXPECT_FALSE(std::isnan(v));
    const auto part = bytes_of(out.rows);
    all.insert(all.end(), part.begin(), part.end());
    slot = next;
    begin = end;
  }
  const auto tail = row_bytes_of(pool, slot, 1);
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}

// Spans shorter than a tail take over rows of the one before.
TEST(ShortConvBits, DoNotDependOnTheCut) {
  const auto x = random_rows(8, 6, mx::bfloat16);
  const auto weight = random_rows(kTaps, 7);
  const auto want = cut_at(x, weight, {8});
  for (unsigned mask = 0; mask < 1u << 7; ++mask) {
    std::vector<int> cuts;
    for (int row = 1; row < 8; ++row)
      if (mask >> (row - 1) & 1) cuts.push_back(row);
    cuts.push_back(8);
    ASSERT_TRUE(cut_at(x, weight, cuts) == want) << mask;
  }
}

// Enough for threads, and for several items in both directions.
TEST(ShortConvBits, DoNotDependOnThreadsOrInstructionSet) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16}) {
    const auto x = random_rows(50, 8, dtype, 5003);
    const auto weight = random_rows(kTaps, 9, dtype, 5003);
    const auto want = cut_at(x, weight, {50});
    with_every_isa([&] {
      for (int threads : {1, 2})
        with_threads(threads, [&] {
          ASSERT_TRUE(cut_at(x, weight, {50}) == want);
          ASSERT_TRUE(cut_at(x, weight, {2, 3, 40, 50}) == want);
        });
    });
  }
}

TEST(ShortConvBits, DoNotDependOnTheCompany) {
  const auto x = random_rows(30, 10), weight = random_rows(kTaps, 11);
  const auto pool = nan_pool(6), alone = nan_pool(6);
  for (const array& p : {pool, alone})
    short_conv(rows_of(x, 0, 5), weight, p, slot_spans({{5, -1, 3}}), true)
        .pool.eval();
  const auto together = short_conv(
      x, weight, pool,
      slot_spans({{2, 3, 0}, {20, -1, 1}, {0, 3, 5}, {8, 3, 2}}), true);
  const struct {
    int begin, end, from, to;
  } spans[] = {{0, 2, 3, 0}, {2, 22, -1, 1}, {22, 30, 3, 2}};
  for (const auto& s : spans) {
    const auto out =
        short_conv(rows_of(x, s.begin, s.end), weight, alone,
                   slot_spans({{s.end - s.begin, s.from, s.to}}), true);
    EXPECT_EQ(bytes_of(out.rows),
              row_bytes_of(together.rows, s.begin, s.end - s.begin));
    EXPECT_EQ(row_bytes_of(alone, s.to, 1), row_bytes_of(pool, s.to, 1));
  }
  EXPECT_EQ(row_bytes_of(pool, 5, 1), row_bytes_of(pool, 3, 1));
  for (float v : values_of(mx::slice(pool, {4, 0}, {5, pool.shape(1)})))
    ASSERT_TRUE(std::isnan(v));
}

TEST(ShortConv, StaysInPlaceAndAFailedStepLeavesWhatItStartedFrom) {
  const auto x = random_rows(12, 12), weight = random_rows(kTaps, 13);
  for (FaultStage stage :
       {FaultStage::build, FaultStage::eval, FaultStage::task}) {
    const auto pool = nan_pool(2);
    const void* address = pool.data<char>();
    short_conv(rows_of(x, 0, 7), weight, pool, slot_spans({{7, -1, 0}}), true)
        .pool.eval();
    const auto committed = row_bytes_of(pool, 0, 1);
    const auto step = [&] {
      return bytes_of(short_conv(rows_of(x, 7, 12), weight, pool,
                                 slot_spans({{5, 0, 1}}), true)
                          .rows);
    };
    const auto want = step();
    set_fault_hook([stage](FaultStage at) {
      if (at == stage) throw std::runtime_error("planted");
    });
    EXPECT_THROW(
        {
          step();
          mx::synchronize();
        },
        std::runtime_error);
    set_fault_hook({});
    EXPECT_EQ(row_bytes_of(pool, 0, 1), committed);
    EXPECT_EQ(step(), want);
    EXPECT_EQ(pool.data<char>(), address);
  }
}

TEST(ShortConv, RefusesWhatDoesNotFit) {
  const auto x = random_rows(4, 14), weight = random_rows(kTaps, 15);
  const auto pool = nan_pool(3);
  const auto batch = slot_spans({{4, -1, 0}});
  EXPECT_THROW(short_conv(x, random_rows(9, 1), pool, batch, true),
               std::invalid_argument);
  EXPECT_THROW(short_conv(x, random_rows(1, 1), pool, batch, true),
               std::invalid_argument);
  EXPECT_THROW(short_conv(x, random_rows(3, 1), pool, batch, true),
               std::invalid_argument);
  EXPECT_THROW(short_conv(x, weight, nan_pool(3, mx::bfloat16), batch, true),
               std::invalid_argument);
  EXPECT_THROW(short_conv(x, weight, pool, slot_spans({{4, 2, 2}}), true),
               std::invalid_argument);
  EXPECT_THROW(short_conv(x, weight, pool, slot_spans({{5, -1, 2}}), true),
               std::invalid_argument);
  // Inside a sequence, without the state before.
  auto inside = *batch;
  inside.spans[0].start = 1;
  EXPECT_THROW(
      short_conv(x, weight, pool, std::make_shared<RaggedBatch>(inside), true),
      std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
