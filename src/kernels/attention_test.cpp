#include "kernels/attention.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/limits.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  AttentionShape shape;
  mx::Dtype dtype = mx::float32;

  int q_row() const { return shape.heads * shape.head_dim; }
  int kv_row() const { return shape.kv_heads * shape.head_dim; }
};

Case make_case(int heads, int kv_heads, int head_dim,
               mx::Dtype dtype = mx::float32) {
  return {{heads, kv_heads, head_dim,
           1.0f / std::sqrt(static_cast<float>(head_dim))},
          dtype};
}

// A sequence with all its queries, keys and values, and blocks in an order
// that is not the identity, with foreign blocks between.
struct Sequence {
  Case c;
  int length;
  std::vector<float> q, k, v;
  std::vector<std::int32_t> blocks;

  Sequence(const Case& c, int length, std::uint64_t seed, int first_block = 1)
      : c(c),
        length(length),
        q(random_floats(std::size_t(length) * c.q_row(), seed)),
        k(random_floats(std::size_t(length) * c.kv_row(), seed + 1)),
        v(random_floats(std::size_t(length) * c.kv_row(), seed + 2)) {
    for (float& x : q) x *= 4.0f;  // so that weights are far from equal
    const int count = (length + kBlockTokens - 1) / kBlockTokens;
    for (int i = 0; i < count; ++i)
      blocks.push_back(first_block + 2 * (count - 1 - i));
  }

  int pool_blocks() const {
    return *std::max_element(blocks.begin(), blocks.end()) + 2;
  }

  // Rows of the first `known` positions where they belong; NaN elsewhere.
  void fill(const std::vector<float>& rows, int known,
            std::vector<float>& pool) const {
    const int row = c.kv_row();
    for (int p = 0; p < known; ++p)
      std::copy_n(rows.begin() + std::ptrdiff_t(p) * row, row,
                  pool.begin() +
                      (std::ptrdiff_t(blocks[p / kBlockTokens]) * kBlockTokens +
                       p % kBlockTokens) *
                          row);
  }

  array queries(int start, int count) const {
    const auto begin = q.begin() + std::ptrdiff_t(start) * c.q_row();
    return make_array({begin, begin + std::ptrdiff_t(count) * c.q_row()},
                      {count, c.q_row()}, c.dtype);
  }
};

array pool_of(const Sequence& s, const std::vector<float>& rows, int known) {
  const int pool_rows = s.pool_blocks() * kBlockTokens;
  std::vector<float> pool(std::size_t(pool_rows) * s.c.kv_row(), kNan);
  s.fill(rows, known, pool);
  return make_array(pool, {pool_rows, s.c.kv_row()}, s.c.dtype);
}

// Attention of rows [start, start + count), with nothing but NaN in the pools
// past them.
array attend(const Sequence& s, int start, int count) {
  return attention(s.queries(start, count), pool_of(s, s.k, start + count),
                   pool_of(s, s.v, start + count),
                   test_support::one_span(start, count, s.blocks), s.c.shape);
}

// In double precision, with what float32 arithmetic in any order may differ
// from it: each score by (dim + 3) roundings of its absolute products, hence
// weights by twice that and an exp of 2 ulp; sums of positions by one rounding
// each, with one for each tile's rescaling.
struct Exact {
  std::vector<double> out, bound;
};

Exact exact_row(const Sequence& s, int p) {
  constexpr double kEps = 0x1p-24;
  const auto& h = s.c.shape;
  Exact e;
  for (int head = 0; head < h.heads; ++head) {
    const int at = head / (h.heads / h.kv_heads) * h.head_dim;
    std::vector<double> scores;
    double score_error = 0;
    for (int j = 0; j <= p; ++j) {
      double score = 0, size = 0;
      for (int d = 0; d < h.head_dim; ++d) {
        const double term =
            double(s.q[std::size_t(p) * s.c.q_row() + head * h.head_dim + d]) *
            s.k[std::size_t(j) * s.c.kv_row() + at + d];
        score += term;
        size += std::abs(term);
      }
      scores.push_back(score * h.scale);
      score_error =
          std::max(score_error, size * h.scale * (h.head_dim + 3) * kEps);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& x : scores) sum += x = std::exp(x - top);
    const double relative =
        2 * score_error + (p + 1 + 2 * (p / 64 + 1) + 8) * kEps;
    for (int d = 0; d < h.head_dim; ++d) {
      double value = 0, size = 0;
      for (int j = 0; j <= p; ++j) {
        const double v = s.v[std::size_t(j) * s.c.kv_row() + at + d];
        value += scores[j] / sum * v;
        size += scores[j] / sum * std::abs(v);
      }
      e.out.push_back(value);
      // Numerator and denominator each err by `relative`.
      e.bound.push_back(2 * relative * size);
    }
  }
  return e;
}

// Values that the dtype can hold, so that only arithmetic differs.
Sequence rounded(Sequence s) {
  for (auto* values : {&s.q, &s.k, &s.v})
    *values = values_of(make_array(*values, {int(values->size())}, s.c.dtype));
  return s;
}

double half_ulp(mx::Dtype dtype) {
  return dtype == mx::bfloat16 ? 0x1p-8 : dtype == mx::float16 ? 0x1p-11 : 0;
}

void expect_exact(const Sequence& s, int start, int count, const array& out) {
  const auto got = values_of(out);
  for (int r = 0; r < count; ++r) {
    const auto want = exact_row(s, start + r);
    for (int i = 0; i < s.c.q_row(); ++i) {
      const double allowed =
          want.bound[i] +
          half_ulp(s.c.dtype) * (std::abs(want.out[i]) + want.bound[i]);
      ASSERT_NEAR(got[std::size_t(r) * s.c.q_row() + i], want.out[i], allowed)
          << "position " << start + r << ", column " << i;
    }
  }
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      make_case(9, 3, 64),
      make_case(9, 3, 64, mx::bfloat16),
      make_case(4, 4, 64, mx::float16),
      make_case(4, 2, 16),
      make_case(8, 1, 128),
      make_case(2, 1, 256, mx::bfloat16),
      make_case(3, 3, 80),
      make_case(4, 2, 20),  // not whole vectors
      make_case(2, 2, 7, mx::bfloat16),
      make_case(14, 2, 24),
  };
  return all;
}

TEST(Attention, IsExactWithinBounds) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message()
                 << c.shape.heads << "/" << c.shape.kv_heads << " x "
                 << c.shape.head_dim);
    const auto s = rounded(Sequence(c, 330, 7));
    expect_exact(s, 0, 70, attend(s, 0, 70));
    expect_exact(s, 250, 80, attend(s, 250, 80));
    expect_exact(s, 329, 1, attend(s, 329, 1));
  }
}

TEST(Attention, IsExactOverManyChunks) {
  const auto s = rounded(Sequence(make_case(4, 2, 32), 2500, 70));
  expect_exact(s, 2496, 4, attend(s, 2496, 4));
  expect_exact(s, 2048, 1, attend(s, 2048, 1));
  expect_exact(s, 2000, 100, attend(s, 2000, 100));
}

TEST(Attention, AgreesWithItsPlainComposition) {
  for (const Case& c : cases()) {
    const auto s = rounded(Sequence(c, 300, 8));
    const auto batch = test_support::one_span(200, 100, s.blocks);
    // Stale rows are NaN here, too.
    const int dim = c.shape.head_dim;
    const auto out = values_of(plain::attention(
        s.queries(200, 100), {{.plain = pool_of(s, s.k, 300), .dim = dim}},
        {.plain = pool_of(s, s.v, 300), .dim = dim}, batch, c.shape));
    const auto ours = values_of(attend(s, 200, 100));
    for (int r = 0; r < 100; ++r) {
      const auto want = exact_row(s, 200 + r);
      for (int i = 0; i < c.q_row(); ++i) {
        const double ulp =
            half_ulp(c.dtype) * (std::abs(want.out[i]) + want.bound[i]);
        const std::size_t at = std::size_t(r) * c.q_row() + i;
        ASSERT_NEAR(out[at], ours[at], 2 * (want.bound[i] + ulp));
      }
    }
  }
}

// The rows of one pass over the whole sequence, which all cuts must equal.
std::vector<std::uint8_t> whole(const Sequence& s) {
  return bytes_of(attend(s, 0, s.length));
}

std::vector<std::uint8_t> part(const std::vector<std::uint8_t>& rows,
                               const Sequence& s, int start, int count) {
  const std::size_t row = rows.size() / s.length;
  return {rows.begin() + std::ptrdiff_t(start * row),
          rows.begin() + std::ptrdiff_t((start + count) * row)};
}

void expect_same_cut(const Sequence& s, const std::vector<int>& cuts) {
  const auto all = whole(s);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int count = cuts[i + 1] - cuts[i];
    ASSERT_EQ(bytes_of(attend(s, cuts[i], count)), part(all, s, cuts[i], count))
        << "rows " << cuts[i] << " to " << cuts[i + 1];
  }
}

TEST(AttentionBits, DoNotDependOnCuts) {
  for (const Case& c : cases()) {
    const Sequence s(c, 400, 9);
    std::vector<int> ones(131);
    std::iota(ones.begin(), ones.end(), 200);
    expect_same_cut(s, ones);
    expect_same_cut(s, {0, 64, 128, 192, 256, 320, 384, 400});
    expect_same_cut(s, {0, 1, 3, 10, 11, 75, 140, 255, 258, 399, 400});
  }
}

TEST(AttentionBits, DoNotDependOnCutsOfLongContexts) {
  for (auto dtype : {mx::float32, mx::bfloat16}) {
    const Sequence s(make_case(6, 2, 64, dtype), 2200, 10);
    expect_same_cut(
        s, {0, 1023, 1024, 1025, 1030, 2047, 2048, 2049, 2112, 2199, 2200});
  }
}

TEST(AttentionBits, DoNotDependOnTheNumberOfRows) {
  const Sequence s(make_case(9, 3, 64), 300, 11);
  const auto all = whole(s);
  for (int count = 1; count <= 64; ++count)
    ASSERT_EQ(bytes_of(attend(s, 230, count)), part(all, s, 230, count))
        << count << " rows";
}

TEST(AttentionBits, DoNotDependOnThreadsOrInstructionSet) {
  for (const Case& c : cases()) {
    const Sequence s(c, 200, 12);
    const auto once = whole(s);
    with_every_isa([&] {
      for (int threads : {1, 2})
        with_threads(threads, [&] { ASSERT_EQ(whole(s), once); });
    });
  }
  // Long enough to be split over threads.
  const Sequence s(make_case(9, 3, 64), 3000, 13);
  const auto last = bytes_of(attend(s, 2999, 1));
  with_every_isa([&] {
    for (int threads : {1, 2})
      with_threads(threads, [&] {
        ASSERT_EQ(bytes_of(attend(s, 2999, 1)), last);
        ASSERT_EQ(row_bytes_of(attend(s, 2990, 10), 9, 1), last);
      });
  });
}

// Several sequences in one step, spans of no rows among them.
TEST(AttentionBits, DoNotDependOnOtherSpans) {
  const Case c = make_case(9, 3, 64);
  const Sequence a(c, 300, 20, 1), b(c, 1500, 30, 12), d(c, 70, 40, 40);
  const int rows = 50 * kBlockTokens;
  std::vector<float> k(std::size_t(rows) * c.kv_row(), kNan), v = k;
  for (const Sequence* s : {&a, &b, &d}) {
    s->fill(s->k, s->length, k);
    s->fill(s->v, s->length, v);
  }
  RaggedBatch batch;
  test_support::add_span(batch, 299, 1, a.blocks);
  test_support::add_span(batch, 0, 0, {});
  test_support::add_span(batch, 1499, 1, b.blocks);
  test_support::add_span(batch, 6, 64, d.blocks);
  test_support::add_span(batch, 300, 0, a.blocks);
  const auto q = mx::concatenate(
      {a.queries(299, 1), b.queries(1499, 1), d.queries(6, 64)}, 0);
  const auto out = attention(
      q, make_array(k, {rows, c.kv_row()}), make_array(v, {rows, c.kv_row()}),
      std::make_shared<const RaggedBatch>(batch), c.shape);
  EXPECT_EQ(row_bytes_of(out, 0, 1), bytes_of(attend(a, 299, 1)));
  EXPECT_EQ(row_bytes_of(out, 1, 1), bytes_of(attend(b, 1499, 1)));
  EXPECT_EQ(row_bytes_of(out, 2, 64), bytes_of(attend(d, 6, 64)));
}

// What a later row of the same span holds never reaches an earlier one.
TEST(Attention, LaterRowsOfASpanDoNotShow) {
  const Case c = make_case(9, 3, 64);
  Sequence s(c, 100, 50);
  const auto before = row_bytes_of(attend(s, 0, 100), 0, 70);
  for (std::size_t i = 70 * std::size_t(c.kv_row()); i < s.k.size(); ++i)
    s.k[i] = s.v[i] = kNan;
  const auto out = attend(s, 0, 100);
  EXPECT_EQ(row_bytes_of(out, 0, 70), before);
  for (float x : values_of(mx::slice(out, {70, 0}, {100, c.q_row()})))
    EXPECT_TRUE(std::isnan(x));
}

TEST(Attention, PassesOnWhatIsNotANumber) {
  const Case c = make_case(4, 2, 32);
  for (float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    Sequence s(c, 100, 51);
    s.q[std::size_t(99) * c.q_row()] = bad;
    const auto out = values_of(attend(s, 99, 1));
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_FALSE(std::isnan(out[c.shape.head_dim]));
  }
}

TEST(Attention, TakesQueriesThatAreNotContiguous) {
  const Case c = make_case(4, 2, 32);
  const Sequence s(c, 40, 52);
  const auto batch = test_support::one_span(0, 40, s.blocks);
  const auto k = pool_of(s, s.k, 40), v = pool_of(s, s.v, 40);
  const auto want = bytes_of(attend(s, 0, 40));
  const auto q = s.queries(0, 40);
  // Columns of a wider array, and a matrix stored by columns.
  const auto wide = mx::concatenate({q, q, q}, 1);
  const auto middle = mx::slice(wide, {0, c.q_row()}, {40, 2 * c.q_row()});
  EXPECT_EQ(bytes_of(attention(middle, k, v, batch, c.shape)), want);
  auto turned = mx::contiguous(mx::transpose(q));
  EXPECT_EQ(bytes_of(attention(mx::transpose(turned), k, v, batch, c.shape)),
            want);
}

TEST(Attention, NoRows) {
  const Sequence s(make_case(4, 2, 32), 10, 53);
  RaggedBatch none;
  test_support::add_span(none, 10, 0, s.blocks);
  const auto out = attention(
      array(std::vector<float>().begin(), {0, s.c.q_row()}, mx::float32),
      pool_of(s, s.k, 10), pool_of(s, s.v, 10),
      std::make_shared<const RaggedBatch>(none), s.c.shape);
  EXPECT_EQ(values_of(out).size(), 0u);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Sequence s(make_case(4, 2, 32), 10, 54);
  const auto q = s.queries(0, 10);
  const auto k = pool_of(s, s.k, 10), v = pool_of(s, s.v, 10);
  const auto good = test_support::one_span(0, 10, s.blocks);
  auto run = [&](const array& query, const array& keys,
                 const RaggedBatchPtr& batch, AttentionShape shape) {
    return attention(query, keys, v, batch, shape);
  };
  const auto shape = s.c.shape;
  EXPECT_THROW(run(q, k, good, {4, 3, 32}), std::invalid_argument);
  EXPECT_THROW(run(q, k, good, {4, 2, 16}), std::invalid_argument);
  EXPECT_THROW(run(mx::astype(q, mx::bfloat16), k, good, shape),
               std::invalid_argument);
  EXPECT_THROW(run(q, k, test_support::one_span(0, 9, s.blocks), shape),
               std::invalid_argument);
  EXPECT_THROW(run(q, k, test_support::one_span(0, 10, {99}), shape),
               std::invalid_argument);
  auto short_table = *good;
  short_table.spans[0].blocks.clear();
  EXPECT_THROW(
      run(q, k, std::make_shared<const RaggedBatch>(short_table), shape),
      std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
