#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/limits.h"
#include "kernels/cpu/index_rows.h"
#include "kernels/fault.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::add_span;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;
using Bytes = std::vector<std::uint8_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Kind {
  int pool, dim;
  mx::Dtype dtype;
};

const std::vector<Kind> kKinds = {
    {4, 32, mx::float32}, {4, 128, mx::bfloat16}, {16, 20, mx::float16},
    {2, 7, mx::bfloat16}, {1, 16, mx::float32},   {256, 16, mx::float32}};

// Index rows of one sequence, and pools for them.
class Index {
 public:
  Index(const Kind& kind, int length, std::uint64_t seed)
      : kind_(kind),
        keys_(rows(length, seed, 1)),
        gates_(rows(length, seed + 1, 4)),
        ape_(make_array(random_floats(kind.pool * kind.dim, 77),
                        {kind.pool, kind.dim})) {}

  IndexPools empty(int blocks = 8) const {
    const auto nan = [&](int rows, int columns) {
      return make_array(std::vector<float>(std::size_t(rows) * columns, kNan),
                        {rows, columns}, kind_.dtype);
    };
    return {nan(blocks * kBlockTokens / kind_.pool, kind_.dim),
            nan(6, (kind_.pool - 1) * 2 * kind_.dim)};
  }

  IndexPools step(const IndexPools& pools, const RaggedBatch& batch,
                  int start) const {
    const auto part = [&](const array& a) {
      return mx::slice(a, {start, 0}, {start + batch.tokens, kind_.dim});
    };
    return pool_index(pools, part(keys_), part(gates_), ape_,
                      std::make_shared<const RaggedBatch>(batch));
  }

  // Steps between cuts, through slots 1, 2, 1 ..., then pooled rows of the
  // block table in order, and the last slot's rows of a pool not complete.
  std::pair<Bytes, Bytes> run(const std::vector<int>& cuts) const {
    const IndexPools pools = empty();
    int slot = -1;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int next = slot == 1 ? 2 : 1;
      evaluate(step(pools, span(cuts[i], cuts[i + 1] - cuts[i], slot, next),
                    cuts[i]));
      slot = next;
    }
    return {pooled(pools, cuts.back()), partial(pools, slot, cuts.back())};
  }

  static void evaluate(const IndexPools& pools) {
    mx::eval(pools.pooled, pools.partial);
  }

  RaggedBatch span(int start, int rows, int from, int to) const {
    RaggedBatch batch;
    add_span(batch, start, rows, blocks_);
    batch.spans[0].slot_from = from;
    batch.spans[0].slot_to = to;
    return batch;
  }

  Bytes pooled(const IndexPools& pools, int length) const {
    const int in_block = kBlockTokens / kind_.pool;
    Bytes all;
    for (int p = 0; p < length / kind_.pool; ++p) {
      const auto row = row_bytes_of(
          pools.pooled, blocks_[p / in_block] * in_block + p % in_block, 1);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  Bytes partial(const IndexPools& pools, int slot, int length) const {
    const int rows = length % kind_.pool;
    if (rows == 0) return {};
    return bytes_of(
        mx::slice(pools.partial, {slot, 0}, {slot + 1, rows * 2 * kind_.dim}));
  }

  array whole(const array& a, int pools) const {
    return mx::slice(a, {0, 0}, {pools * kind_.pool, kind_.dim});
  }
  const array& keys() const { return keys_; }
  const array& gates() const { return gates_; }
  const array& ape() const { return ape_; }
  const Kind& kind() const { return kind_; }

 private:
  array rows(int length, std::uint64_t seed, float size) const {
    auto values = random_floats(std::size_t(length) * kind_.dim, seed);
    for (float& x : values) x *= size;
    return make_array(values, {length, kind_.dim}, kind_.dtype);
  }

  const Kind kind_;
  const array keys_, gates_, ape_;
  const std::vector<std::int32_t> blocks_ = {5, 2, 7};
};

double half_ulp(mx::Dtype dtype) {
  return dtype == mx::bfloat16 ? 0x1p-8 : dtype == mx::float16 ? 0x1p-11 : 0;
}

// In double precision. A logit of at most 5 is rounded once, exp() errs by 2
// ulp, each sum and product by a rounding.
void expect_exact(const Index& index, const std::vector<float>& got) {
  const auto keys = values_of(index.keys()), gates = values_of(index.gates());
  const auto ape = values_of(index.ape());
  const auto [s, dim, dtype] = index.kind();
  for (std::size_t at = 0; at < got.size(); ++at) {
    const int p = int(at) / dim, d = int(at) % dim;
    double all = 0, mixed = 0, size = 0;
    for (int i = 0; i < s; ++i) {
      const std::size_t from = std::size_t(p * s + i) * dim + d;
      const double weight = std::exp(double(gates[from]) + ape[i * dim + d]);
      all += weight;
      mixed += weight * keys[from];
      size += weight * std::abs(keys[from]);
    }
    const double bound = (2 * (10 + 4 + s) + 2) * 0x1p-24 * size / all;
    ASSERT_NEAR(got[at], mixed / all,
                bound + half_ulp(dtype) * (std::abs(mixed / all) + bound))
        << "pool " << p << ", channel " << d;
  }
}

TEST(PoolIndex, IsExactWithinBounds) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.pool);
    const Index index(kind, 600, 5);
    const IndexPools pools = index.empty();
    const auto next = index.step(pools, index.span(0, 600, -1, 3), 0);
    Index::evaluate(next);
    EXPECT_EQ(next.pooled.data<char>(), pools.pooled.data<char>());
    EXPECT_EQ(next.partial.data<char>(), pools.partial.data<char>());
    std::vector<float> rows;
    const int in_block = kBlockTokens / kind.pool;
    for (int p = 0; p < 600 / kind.pool; ++p) {
      const int row =
          (std::vector{5, 2, 7})[p / in_block] * in_block + p % in_block;
      const auto v =
          values_of(mx::slice(pools.pooled, {row, 0}, {row + 1, kind.dim}));
      rows.insert(rows.end(), v.begin(), v.end());
    }
    ASSERT_EQ(int(rows.size()), 600 / kind.pool * kind.dim);
    expect_exact(index, rows);
  }
}

TEST(PoolIndex, PlainCompositionIsExactWithinBounds) {
  for (const Kind& kind : kKinds) {
    const Index index(kind, 600, 5);
    const int pools = 600 / kind.pool;
    expect_exact(index, values_of(plain::pool_index(
                            index.whole(index.keys(), pools),
                            index.whole(index.gates(), pools), index.ape())));
  }
}

TEST(PoolIndexBits, DoNotDependOnCutsThreadsOrInstructionSet) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.pool);
    const Index index(kind, 600, 6);
    const auto once = index.run({0, 599});
    std::vector<int> ones;
    for (int i = 0; i <= 599; ++i) ones.push_back(i);
    EXPECT_TRUE(index.run(ones) == once);
    for (const auto& cuts : std::vector<std::vector<int>>{
             {0, 1, 2, 3, 5, 9, 12, 13, 255, 256, 257, 300, 599},
             {0, 64, 128, 192, 256, 512, 599}})
      EXPECT_TRUE(index.run(cuts) == once);
    with_every_isa([&] {
      for (int threads : {1, 2})
        with_threads(threads, [&] {
          EXPECT_TRUE(index.run({0, 37, 599}) == once);
        });
    });
  }
}

TEST(PoolIndexBits, DoNotDependOnOtherSpans) {
  const Index index({4, 32, mx::float32}, 100, 7);
  const auto alone = index.empty(), both = index.empty();
  Index::evaluate(index.step(alone, index.span(0, 50, -1, 2), 0));
  RaggedBatch batch = index.span(0, 50, -1, 2);
  add_span(batch, 0, 0, {});
  add_span(batch, 256, 50, {0, 1});
  batch.spans[2].slot_to = 4;
  Index::evaluate(index.step(both, batch, 0));
  EXPECT_EQ(index.pooled(both, 50), index.pooled(alone, 50));
  EXPECT_EQ(index.partial(both, 2, 50), index.partial(alone, 2, 50));
  // Rows 50..99 at position 256, whose two rows of the last pool remain.
  EXPECT_EQ(bytes_of(mx::slice(both.partial, {4, 0}, {5, 32})),
            row_bytes_of(index.keys(), 98, 1));
}

// Whoever saves a slot saves what is in it.
TEST(PoolIndex, BehindThePartialRowsAreZeros) {
  const Index index({4, 32, mx::float32}, 100, 8);
  const auto pools = index.empty();
  Index::evaluate(index.step(pools, index.span(0, 7, -1, 1), 0));
  Index::evaluate(index.step(pools, index.span(7, 2, 1, 2), 7));
  const auto slot = row_bytes_of(pools.partial, 2, 1);
  const auto rows = index.partial(pools, 2, 9);
  ASSERT_EQ(slot.size(), 3 * rows.size());
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), slot.begin()));
  EXPECT_TRUE(std::all_of(slot.begin() + std::ptrdiff_t(rows.size()),
                          slot.end(), [](auto byte) { return byte == 0; }));
}

TEST(PoolIndex, TheSlotThatIsReadStaysAsItWas) {
  const Index index({4, 32, mx::float32}, 100, 8);
  const auto pools = index.empty();
  Index::evaluate(index.step(pools, index.span(0, 6, -1, 1), 0));
  const auto before = row_bytes_of(pools.partial, 1, 1);
  Index::evaluate(index.step(pools, index.span(6, 1, 1, 2), 6));
  EXPECT_EQ(row_bytes_of(pools.partial, 1, 1), before);
  EXPECT_EQ(index.partial(pools, 2, 7).size(), std::size_t(3 * 64 * 4));
  // Nobody wants what follows.
  const auto all = bytes_of(pools.partial);
  Index::evaluate(index.step(pools, index.span(7, 2, 2, -1), 7));
  EXPECT_EQ(bytes_of(pools.partial), all);
}

// The source goes on behind what is shared; that is not copied.
TEST(PoolIndex, CopiesCompletePoolsOfABlock) {
  const Index index({4, 32, mx::float32}, 100, 9);
  const auto pools = index.empty();
  Index::evaluate(index.step(pools, index.span(0, 50, -1, 1), 0));
  Index::evaluate(index.step(pools, index.span(50, 50, 1, 2), 50));
  RaggedBatch batch;
  add_span(batch, 50, 4, {1});
  batch.spans[0].slot_from = 1;
  batch.spans[0].slot_to = 2;
  batch.copies = {{5 * 256, 1 * 256, 50}};
  Index::evaluate(index.step(pools, batch, 50));
  EXPECT_EQ(row_bytes_of(pools.pooled, 64, 13), index.run({0, 54}).first);
  for (float x : values_of(mx::slice(pools.pooled, {64 + 13, 0}, {128, 32})))
    ASSERT_TRUE(std::isnan(x));
}

TEST(PoolIndex, VisitsEveryFaultPoint) {
  const Index index({4, 32, mx::float32}, 100, 10);
  for (auto stage : {FaultStage::build, FaultStage::eval, FaultStage::task}) {
    int seen = 0;
    set_fault_hook([&](FaultStage at) { seen += at == stage; });
    Index::evaluate(index.step(index.empty(), index.span(0, 9, -1, 1), 0));
    set_fault_hook({});
    EXPECT_EQ(seen, 1);
  }
}

TEST(PoolIndex, RefusesWhatDoesNotFit) {
  const Index index({4, 32, mx::float32}, 100, 11);
  const auto pools = index.empty();
  const auto fails = [&](const RaggedBatch& batch) {
    EXPECT_THROW(index.step(pools, batch, 0), std::invalid_argument);
  };
  fails(index.span(5, 9, -1, 1));  // inside a pool
  fails(index.span(5, 9, 1, 1));
  fails(index.span(5, 9, 1, 6));
  auto batch = index.span(0, 9, -1, 1);
  batch.spans[0].blocks = {8};
  fails(batch);
  batch = index.span(0, 9, -1, 1);
  batch.copies = {{2, 256, 4}};
  fails(batch);
  batch = index.span(0, 9, -1, 1);
  add_span(batch, 4, 1, {0});
  batch.spans[1].slot_from = 1;
  fails(batch);
  EXPECT_THROW(
      pool_index(
          pools, index.keys(), index.gates(), mx::zeros({3, 32}),
          std::make_shared<const RaggedBatch>(index.span(0, 100, -1, 1))),
      std::invalid_argument);
  EXPECT_THROW(pool_index(pools, index.keys(),
                          mx::astype(index.gates(), mx::bfloat16), index.ape(),
                          std::make_shared<const RaggedBatch>(
                              index.span(0, 100, -1, 1))),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
