#include <gtest/gtest.h>
#include <mlx/allocator.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/limits.h"
#include "kernels/fault.h"
#include "kernels/ops.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::bytes_of;
using test_support::make_array;
using test_support::one_span;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

array nan_pool(int rows, int dim, mx::Dtype dtype = mx::float32) {
  return make_array(std::vector<float>(std::size_t(rows) * dim, kNan),
                    {rows, dim}, dtype);
}

array random_rows(int rows, int dim, std::uint64_t seed,
                  mx::Dtype dtype = mx::float32) {
  return make_array(random_floats(std::size_t(rows) * dim, seed), {rows, dim},
                    dtype);
}

RaggedBatchPtr places(std::vector<std::int64_t> rows,
                      std::vector<RowCopy> copies = {}) {
  auto batch = std::make_shared<RaggedBatch>();
  batch->tokens = static_cast<int>(rows.size());
  batch->pool_rows = std::move(rows);
  batch->copies = std::move(copies);
  return batch;
}

TEST(Append, WritesRowsIntoThePoolItself) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16}) {
    const auto pool = nan_pool(512, 24, dtype);
    const void* address = pool.data<char>();
    const auto rows = random_rows(3, 24, 1, dtype);
    auto out = append(pool, rows, places({5, 511, 0}));
    out.eval();
    EXPECT_EQ(out.data<char>(), address);
    EXPECT_EQ(pool.data<char>(), address);
    EXPECT_EQ(row_bytes_of(pool, 5, 1), row_bytes_of(rows, 0, 1));
    EXPECT_EQ(row_bytes_of(pool, 511, 1), row_bytes_of(rows, 1, 1));
    EXPECT_EQ(row_bytes_of(pool, 0, 1), row_bytes_of(rows, 2, 1));
    for (float x : values_of(mx::slice(pool, {6, 0}, {511, 24})))
      ASSERT_TRUE(std::isnan(x));
  }
}

TEST(Append, SkipsNegativePlaces) {
  const auto pool = nan_pool(256, 8);
  const auto rows = random_rows(3, 8, 2);
  append(pool, rows, places({-1, 7, -1})).eval();
  EXPECT_EQ(row_bytes_of(pool, 7, 1), row_bytes_of(rows, 1, 1));
  int numbers = 0;
  for (float x : values_of(pool)) numbers += !std::isnan(x);
  EXPECT_EQ(numbers, 8);
}

// Copy on write: rows 0..9 go to 256..265, then 265 is overwritten; so must
// be the copy's source, which the copy has read before.
TEST(Append, CopiesBeforeItWrites) {
  const auto pool = nan_pool(512, 8);
  const auto old = random_rows(10, 8, 3), rows = random_rows(2, 8, 4);
  append(pool, old, places({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})).eval();
  append(pool, rows, places({265, 0}, {{0, 256, 10}})).eval();
  EXPECT_EQ(row_bytes_of(pool, 256, 9), row_bytes_of(old, 0, 9));
  EXPECT_EQ(row_bytes_of(pool, 265, 1), row_bytes_of(rows, 0, 1));
  EXPECT_EQ(row_bytes_of(pool, 0, 1), row_bytes_of(rows, 1, 1));
  EXPECT_EQ(row_bytes_of(pool, 1, 9), row_bytes_of(old, 1, 9));
}

TEST(Append, TakesRowsThatAreNotContiguous) {
  const auto rows = random_rows(6, 16, 5);
  const auto wide = mx::concatenate({rows, rows, rows}, 1);
  const auto turned = mx::contiguous(mx::transpose(rows));
  for (const auto& view :
       {mx::slice(wide, {0, 16}, {6, 32}), mx::transpose(turned)}) {
    const auto pool = nan_pool(256, 16);
    append(pool, view, places({10, 11, 12, 13, 14, 15})).eval();
    EXPECT_EQ(row_bytes_of(pool, 10, 6), bytes_of(rows));
  }
}

TEST(Append, NoRows) {
  const auto pool = nan_pool(256, 8);
  const array none(std::vector<float>().begin(), {0, 8}, mx::float32);
  auto out = append(pool, none, places({}));
  out.eval();
  EXPECT_EQ(out.data<char>(), pool.data<char>());
}

TEST(Append, RefusesWhatDoesNotFit) {
  const auto pool = nan_pool(256, 8);
  const auto rows = random_rows(1, 8, 6);
  EXPECT_THROW(append(pool, rows, places({256})), std::invalid_argument);
  EXPECT_THROW(append(pool, rows, places({1, 2})), std::invalid_argument);
  EXPECT_THROW(append(pool, random_rows(1, 9, 6), places({1})),
               std::invalid_argument);
  EXPECT_THROW(append(pool, mx::astype(rows, mx::bfloat16), places({1})),
               std::invalid_argument);
  EXPECT_THROW(append(pool, rows, places({1}, {{0, 250, 7}})),
               std::invalid_argument);
  EXPECT_THROW(append(pool, rows, places({1}, {{-1, 0, 1}})),
               std::invalid_argument);
}

// A small model of attention layers over pools, to run steps on.
class Layers {
 public:
  static constexpr AttentionShape kShape = {4, 2, 32, 0.2f};
  static constexpr int kRow = 64;
  static constexpr int kCount = 4;

  Layers() {
    for (int i = 0; i < 2 * kCount; ++i)
      pools_.push_back(nan_pool(4 * kBlockTokens, kRow));
  }

  // Builds the step for rows [start, start + rows): each layer's input is the
  // output of the one before it.
  array build(int start, int rows) const {
    const auto batch = one_span(start, rows, {2, 0, 3});
    auto x = mx::slice(input_, {start, 0}, {start + rows, 128});
    for (int i = 0; i < kCount; ++i) {
      const auto k = mx::slice(x, {0, 0}, {rows, kRow});
      const auto v = mx::slice(x, {0, kRow}, {rows, 2 * kRow});
      const auto keys = append(pools_[2 * i], k, batch);
      const auto values = append(pools_[2 * i + 1], v, batch);
      x = kernels::add(x, attention(x, keys, values, batch, kShape));
    }
    return x;
  }

  std::vector<std::uint8_t> step(int start, int rows) const {
    return bytes_of(build(start, rows));
  }

  // Committed rows of all pools, the first `length` positions.
  std::vector<std::vector<std::uint8_t>> committed(int length) const {
    std::vector<std::vector<std::uint8_t>> all;
    for (const array& pool : pools_)
      all.push_back(row_bytes_of(pool, 2 * kBlockTokens, length));
    return all;
  }

  std::vector<const char*> addresses() const {
    std::vector<const char*> all;
    for (const array& pool : pools_) all.push_back(pool.data<char>());
    return all;
  }

 private:
  const array input_ = random_rows(600, 128, 7);
  std::vector<array> pools_;
};

// One step is always in flight while the next is built, as in the engine.
TEST(Append, StaysInPlaceOneStepAhead) {
  const Layers layers, at_once;
  const auto addresses = layers.addresses();
  const auto all = at_once.step(0, 360);
  const std::size_t row = all.size() / 360;
  std::vector<std::uint8_t> rows = layers.step(0, 200);
  std::optional<array> flying;
  for (int p = 200; p < 360; ++p) {
    auto next = layers.build(p, 1);
    mx::async_eval(next);
    if (flying) {
      const auto done = bytes_of(*flying);
      rows.insert(rows.end(), done.begin(), done.end());
    }
    flying = next;
  }
  const auto done = bytes_of(*flying);
  rows.insert(rows.end(), done.begin(), done.end());
  EXPECT_EQ(layers.addresses(), addresses);
  ASSERT_EQ(rows.size(), 360 * row);
  EXPECT_TRUE(rows == all);
}

// What f throws. MLX keeps only the message of what a task throws.
std::string failure_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// Throws at the n-th visit of a stage.
class FaultAt {
 public:
  FaultAt(FaultStage stage, int visit) {
    set_fault_hook([stage, visit, seen = 0](FaultStage at) mutable {
      if (at == stage && seen++ == visit) throw std::runtime_error("planted");
    });
  }
  ~FaultAt() { set_fault_hook({}); }
};

class AppendFault : public ::testing::TestWithParam<FaultStage> {};

TEST_P(AppendFault, LeavesCommittedRowsAndTheNextStepRight) {
  const Layers clean;
  const auto first = clean.step(0, 130);
  const auto second = clean.step(130, 40);
  const auto committed = clean.committed(130);
  const auto committed_all = clean.committed(170);
  for (int visit = 0; visit < 2 * Layers::kCount; ++visit) {
    SCOPED_TRACE(visit);
    const Layers layers;
    const auto addresses = layers.addresses();
    ASSERT_EQ(layers.step(0, 130), first);
    {
      const FaultAt fault(GetParam(), visit);
      EXPECT_EQ(failure_of([&] {
                  auto x = layers.build(130, 40);
                  mx::async_eval(x);
                  x.wait();
                  mx::synchronize();
                }),
                "planted");
    }
    EXPECT_EQ(layers.addresses(), addresses);
    EXPECT_TRUE(layers.committed(130) == committed);
    // What the failed step left behind is garbage past the length.
    EXPECT_TRUE(layers.step(130, 40) == second);
    EXPECT_TRUE(layers.committed(170) == committed_all);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, AppendFault,
                         ::testing::Values(FaultStage::build, FaultStage::eval,
                                           FaultStage::task),
                         [](const auto& info) {
                           return std::string(
                               info.param == FaultStage::build  ? "Build"
                               : info.param == FaultStage::eval ? "Eval"
                                                                : "Task");
                         });

// A pool of more than 2^31 elements whose pages are never touched but where
// rows are written.
TEST(Append, ReachesPastTwoToThe31Elements) {
  constexpr int kRow = 64;
  constexpr int kRows = (1 << 25) + 2 * kBlockTokens;
  constexpr std::size_t kBytes = std::size_t{kRows} * kRow * 2 + 4096;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  {
    const array pool(mx::allocator::Data(mx::allocator::Buffer(memory),
                                         [](mx::allocator::Buffer) {}),
                     {kRows, kRow}, mx::bfloat16);
    const int last = kRows / kBlockTokens - 1;
    ASSERT_GT(std::int64_t{last} * kBlockTokens * kRow, std::int64_t{1} << 31);
    const auto rows = random_rows(70, kRow, 8, mx::bfloat16);
    const auto batch = one_span(0, 70, {last});
    const auto out = append(pool, rows, batch);
    const AttentionShape shape = {1, 1, kRow, 0.125f};
    const auto far = bytes_of(attention(rows, out, out, batch, shape));

    const auto near_pool = nan_pool(kBlockTokens, kRow, mx::bfloat16);
    const auto near_batch = one_span(0, 70, {0});
    const auto near_out = append(near_pool, rows, near_batch);
    EXPECT_EQ(far,
              bytes_of(attention(rows, near_out, near_out, near_batch, shape)));
  }
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace reprise::kernels
