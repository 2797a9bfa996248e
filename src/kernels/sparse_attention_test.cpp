#include "kernels/sparse_attention.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/limits.h"
#include "kernels/attention_testing.h"
#include "kernels/cpu/sparse_run.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::AttentionKind;
using test_support::AttentionSequence;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;

struct SparseKind {
  std::string name;
  AttentionKind attention;
  IndexShape index;

  friend std::ostream& operator<<(std::ostream& out, const SparseKind& k) {
    return out << k.name;
  }
};

AttentionKind latent(int heads, std::vector<int> parts,
                     mx::Dtype dtype = mx::float32,
                     std::optional<RowCodec> codec = std::nullopt) {
  const int dim = std::accumulate(parts.begin(), parts.end(), 0);
  AttentionShape shape = {heads, 1, dim, 0.2f};
  shape.value_dim = parts[0];
  return {"", shape, parts, true, dtype, codec, 256};
}

const std::vector<SparseKind>& kinds() {
  static const std::vector<SparseKind> all = {
      {"alone", latent(6, {32}), {4, 16, 4, 32, 0.25f}},
      {"rope", latent(5, {32, 16}, mx::bfloat16), {3, 20, 4, 64, 0.2f}},
      {"half", latent(3, {20}, mx::float16), {8, 32, 16, 48, 0.2f}},
      {"single", latent(3, {16}), {2, 7, 1, 70, 0.3f}},
      {"odd_budget", latent(3, {16}), {2, 7, 4, 10, 0.3f}},
      {"q8",
       latent(6, {64}, mx::bfloat16, RowCodec{8, 64}),
       {4, 16, 4, 40, 0.25f}},
  };
  return all;
}

// A sequence with its index.
class SparseSequence {
 public:
  SparseSequence(const SparseKind& kind, int length, std::uint64_t seed,
                 int first_block = 1)
      : kind_(kind), rows_(kind.attention, length, seed, first_block) {
    const auto& s = kind.index;
    keys_ = random(length, s.dim, seed + 10, 2);
    gates_ = random(length, s.dim, seed + 11, 2);
    queries_ = random(length, s.heads * s.dim, seed + 12, 2);
    weights_ = random(length, s.heads, seed + 13, 1);
  }

  struct State {
    AttentionSequence::State rows;
    IndexPools pools;
  };
  State empty_state(int blocks) const {
    const auto& s = kind_.index;
    const auto nan = [&](int rows, int columns) {
      return make_array(
          std::vector<float>(std::size_t(rows) * columns,
                             std::numeric_limits<float>::quiet_NaN()),
          {rows, columns}, kind_.attention.dtype);
    };
    return {rows_.empty_state(blocks),
            {nan(blocks * kBlockTokens / s.pool, s.dim),
             nan(3, (s.pool - 1) * 2 * s.dim)}};
  }

  State append_to(const State& state, int start, int count) const {
    auto batch = *test_support::one_span(start, count, rows_.table(0));
    batch.spans[0].slot_from = start > 0 ? slot_ : -1;
    batch.spans[0].slot_to = slot_ = slot_ == 1 ? 2 : 1;
    const int dim = kind_.index.dim;
    return {rows_.append_to(state.rows, start, count),
            pool_index(state.pools, part(keys_, dim, start, count),
                       part(gates_, dim, start, count), ape(),
                       std::make_shared<const RaggedBatch>(batch))};
  }

  State state_of(int start, int count) const {
    State state = empty_state(rows_.blocks_end());
    if (start > 0) state = append_to(state, 0, start);
    return append_to(state, start, count);
  }

  IndexQueries index_queries(int start, int count) const {
    const auto& s = kind_.index;
    return {part(queries_, s.heads * s.dim, start, count),
            make_array({weights_.begin() + start * s.heads,
                        weights_.begin() + (start + count) * s.heads},
                       {count, s.heads})};
  }

  template <typename Op>
  array with(const Op& op, int start, int count) const {
    const State state = state_of(start, count);
    return op(rows_.queries(start, count), state.rows.keys,
              state.rows.value_rows(), index_queries(start, count), state.pools,
              test_support::one_span(start, count, rows_.table(0)),
              kind_.attention.shape, kind_.index);
  }
  array attend(int start, int count) const {
    return with(&sparse_attention, start, count);
  }
  array attend_plain(int start, int count) const {
    return with(&plain::sparse_attention, start, count);
  }

  // What position t attends to, by scores in double precision of the pooled
  // keys as they are stored.
  std::vector<int> selected(int t) const {
    const auto& s = kind_.index;
    const int pools = (t + 1) / s.pool;
    const auto keys = values_of(plain_keys(pools));
    std::vector<double> scores(pools);
    for (int p = 0; p < pools; ++p)
      for (int h = 0; h < s.heads; ++h) {
        double product = 0;
        for (int d = 0; d < s.dim; ++d)
          product +=
              double(queries_[(std::size_t(t) * s.heads + h) * s.dim + d]) *
              keys[p * s.dim + d];
        scores[p] +=
            weights_[t * s.heads + h] * std::max(0.0, product * s.scale);
      }
    std::vector<int> order(pools), positions;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return scores[a] > scores[b]; });
    order.resize(std::min(pools, s.budget / s.pool));
    for (int p : order)
      for (int i = 0; i < s.pool; ++i) positions.push_back(p * s.pool + i);
    for (int p = pools * s.pool; p <= t; ++p) positions.push_back(p);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  void expect_exact(int start, const array& out) const {
    const auto got = values_of(out);
    const int row = kind_.attention.out_row();
    const auto dtype = kind_.attention.dtype;
    const double half_ulp = dtype == mx::bfloat16  ? 0x1p-8
                            : dtype == mx::float16 ? 0x1p-11
                                                   : 0;
    for (int r = 0; r < out.shape(0); ++r) {
      const auto want = rows_.exact_over(start + r, selected(start + r));
      for (int i = 0; i < row; ++i)
        ASSERT_NEAR(
            got[std::size_t(r) * row + i], want.out[i],
            want.bound[i] + half_ulp * (std::abs(want.out[i]) + want.bound[i]))
            << "position " << start + r << ", column " << i;
    }
  }

  void forget_index() { std::fill(weights_.begin(), weights_.end(), 0.0f); }
  const AttentionSequence& rows() const { return rows_; }
  const SparseKind& kind() const { return kind_; }

 private:
  std::vector<float> random(int rows, int columns, std::uint64_t seed,
                            float size) const {
    auto v = random_floats(std::size_t(rows) * columns, seed);
    for (float& x : v) x *= size;
    return values_of(make_array(v, {int(v.size())}, kind_.attention.dtype));
  }
  array part(const std::vector<float>& rows, int columns, int start,
             int count) const {
    const auto begin = rows.begin() + std::ptrdiff_t(start) * columns;
    return make_array({begin, begin + std::ptrdiff_t(count) * columns},
                      {count, columns}, kind_.attention.dtype);
  }
  array ape() const {
    const auto& s = kind_.index;
    return make_array(random_floats(s.pool * s.dim, 99), {s.pool, s.dim});
  }
  array plain_keys(int pools) const {
    const auto& s = kind_.index;
    if (pools == 0) return mx::zeros({0, s.dim});
    return plain::pool_index(part(keys_, s.dim, 0, pools * s.pool),
                             part(gates_, s.dim, 0, pools * s.pool), ape());
  }

  SparseKind kind_;
  AttentionSequence rows_;
  std::vector<float> keys_, gates_, queries_, weights_;
  mutable int slot_ = 1;
};

class Sparse : public ::testing::TestWithParam<SparseKind> {};

TEST_P(Sparse, IsExactWithinBounds) {
  const SparseSequence s(GetParam(), 400, 7);
  s.expect_exact(0, s.attend(0, 140));
  s.expect_exact(250, s.attend(250, 20));
  for (int t : {395, 396, 397, 398, 399}) s.expect_exact(t, s.attend(t, 1));
}

TEST_P(Sparse, PlainCompositionIsExactWithinBounds) {
  const SparseSequence s(GetParam(), 400, 7);
  s.expect_exact(0, s.attend_plain(0, 80));
  s.expect_exact(250, s.attend_plain(250, 20));
}

TEST_P(Sparse, DoesNotDependOnCuts) {
  const SparseSequence s(GetParam(), 400, 8);
  const auto all = s.attend(0, 400);
  std::vector<int> cuts(30);
  std::iota(cuts.begin(), cuts.end(), 60);
  cuts.insert(cuts.end(), {128, 192, 255, 257, 300, 301, 399, 400});
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    ASSERT_EQ(bytes_of(s.attend(cuts[i], cuts[i + 1] - cuts[i])),
              row_bytes_of(all, cuts[i], cuts[i + 1] - cuts[i]))
        << "rows " << cuts[i] << " to " << cuts[i + 1];
}

TEST_P(Sparse, DoesNotDependOnThreadsOrInstructionSet) {
  const SparseSequence s(GetParam(), 300, 9);
  const auto once = bytes_of(s.attend(40, 260));
  with_every_isa([&] {
    for (int threads : {1, 2})
      with_threads(threads,
                   [&] { ASSERT_EQ(bytes_of(s.attend(40, 260)), once); });
  });
}

TEST_P(Sparse, HasTheBitsOfAttentionWithinTheBudget) {
  const SparseSequence s(GetParam(), 300, 10);
  const auto& index = GetParam().index;
  const int dense = (index.budget / index.pool + 1) * index.pool - 1;
  EXPECT_EQ(bytes_of(s.attend(0, dense)), bytes_of(s.rows().attend(0, dense)));
  EXPECT_NE(bytes_of(s.attend(0, 300)), bytes_of(s.rows().attend(0, 300)));
}

// Without weights all scores are equal, and the first pools are taken.
TEST_P(Sparse, TakesTheEarlierOfEqualPools) {
  SparseSequence s(GetParam(), 300, 11);
  s.forget_index();
  const auto& index = GetParam().index;
  const auto some = s.selected(299);
  EXPECT_EQ(some[index.budget / index.pool * index.pool - 1],
            index.budget / index.pool * index.pool - 1);
  s.expect_exact(290, s.attend(290, 10));
  s.expect_exact(290, s.attend_plain(290, 10));
}

// What is not selected is not read.
TEST_P(Sparse, RowsThatAreNotSelectedDoNotShow) {
  const SparseSequence s(GetParam(), 300, 12);
  auto state = s.state_of(299, 1);
  const auto once = bytes_of(s.attend(299, 1));
  const auto keep = s.selected(299);
  RaggedBatch batch;
  const auto table = s.rows().table(0);
  for (int p = 0; p < 256; ++p)  // plain rows of every kind
    if (!std::binary_search(keep.begin(), keep.end(), p)) {
      batch.pool_rows.push_back(table[0] * kBlockTokens + p);
      ++batch.tokens;
    }
  ASSERT_GT(batch.tokens, 100);
  const auto spoil = std::make_shared<const RaggedBatch>(batch);
  for (StateRows& rows : state.rows.keys)
    rows.plain = append(
        rows.plain,
        mx::full({batch.tokens, rows.dim},
                 std::numeric_limits<float>::quiet_NaN(), rows.plain.dtype()),
        spoil);
  const auto out =
      sparse_attention(s.rows().queries(299, 1), state.rows.keys,
                       state.rows.value_rows(), s.index_queries(299, 1),
                       state.pools, test_support::one_span(299, 1, table),
                       s.kind().attention.shape, s.kind().index);
  EXPECT_EQ(bytes_of(out), once);
}

INSTANTIATE_TEST_SUITE_P(All, Sparse, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

// Lists of more than a chunk, more pools than a thread scores at a time, more
// tokens than are scored at a time.
TEST(SparseBits, DoNotDependOnCutsOfLongContexts) {
  const SparseKind kind = {"long", latent(4, {16}), {2, 16, 2, 1500, 0.3f}};
  const SparseSequence s(kind, 2400, 13);
  const auto all = s.attend(0, 2400);
  for (const auto& [start, count] :
       {std::pair(2399, 1), {2300, 100}, {1480, 40}, {2040, 20}})
    ASSERT_EQ(bytes_of(s.attend(start, count)), row_bytes_of(all, start, count))
        << start;
  for (int threads : {1, 2, 3})
    with_threads(threads, [&] {
      ASSERT_EQ(bytes_of(s.attend(2399, 1)), row_bytes_of(all, 2399, 1));
    });
  s.expect_exact(2399, s.attend(2399, 1));
}

TEST(SparseBits, DoNotDependOnOtherSpans) {
  for (const SparseKind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const SparseSequence a(kind, 300, 20, 1), b(kind, 500, 40, 12);
    auto state = a.empty_state(b.rows().blocks_end());
    state = a.append_to(state, 0, 300);
    state = b.append_to(state, 0, 500);
    RaggedBatch batch;
    test_support::add_span(batch, 299, 1, a.rows().table(0));
    test_support::add_span(batch, 300, 0, a.rows().table(0));
    test_support::add_span(batch, 20, 80, b.rows().table(0));
    const auto ai = a.index_queries(299, 1), bi = b.index_queries(20, 80);
    const auto both = [](const array& x, const array& y) {
      return mx::concatenate({x, y}, 0);
    };
    const auto out = sparse_attention(
        both(a.rows().queries(299, 1), b.rows().queries(20, 80)),
        state.rows.keys, state.rows.value_rows(),
        {both(ai.queries, bi.queries), both(ai.weights, bi.weights)},
        state.pools, std::make_shared<const RaggedBatch>(batch),
        kind.attention.shape, kind.index);
    EXPECT_EQ(row_bytes_of(out, 0, 1), bytes_of(a.attend(299, 1)));
    EXPECT_EQ(row_bytes_of(out, 1, 80), bytes_of(b.attend(20, 80)));
  }
}

TEST(SparseRefuses, WhatDoesNotFit) {
  const SparseKind& kind = kinds()[0];
  const SparseSequence s(kind, 50, 21);
  const auto state = s.state_of(40, 10);
  const auto index = s.index_queries(40, 10);
  const auto batch = test_support::one_span(40, 10, s.rows().table(0));
  const auto run = [&](const IndexQueries& i, const IndexPools& pools,
                       const AttentionShape& shape, const IndexShape& is) {
    sparse_attention(s.rows().queries(40, 10), state.rows.keys,
                     state.rows.value_rows(), i, pools, batch, shape, is);
  };
  const auto& shape = kind.attention.shape;
  EXPECT_NO_THROW(run(index, state.pools, shape, kind.index));
  auto windowed = shape;
  windowed.window = 9;
  EXPECT_THROW(run(index, state.pools, windowed, kind.index),
               std::invalid_argument);
  auto is = kind.index;
  is.pool = 3;
  EXPECT_THROW(run(index, state.pools, shape, is), std::invalid_argument);
  is = kind.index;
  is.budget = 3;
  EXPECT_THROW(run(index, state.pools, shape, is), std::invalid_argument);
  is = kind.index;
  is.dim = 8;
  EXPECT_THROW(run(index, state.pools, shape, is), std::invalid_argument);
  auto other = index;
  other.weights = mx::astype(other.weights, mx::bfloat16);
  EXPECT_THROW(run(other, state.pools, shape, kind.index),
               std::invalid_argument);
  other = index;
  other.queries = mx::astype(other.queries, mx::bfloat16);
  EXPECT_THROW(run(other, state.pools, shape, kind.index),
               std::invalid_argument);
  IndexPools half = state.pools;
  half.pooled = mx::slice(half.pooled, {0, 0}, {64, kind.index.dim});
  EXPECT_THROW(run(index, half, shape, kind.index), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
