#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/cpu/thread_pool.h"
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
using test_support::SlotSpan;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DeltaShape kShape = {3, 20, 50};  // tails of every kind

int state_size(const DeltaShape& s) {
  return s.heads * s.key_dim * s.value_dim;
}

array nan_pool(int slots, const DeltaShape& s = kShape) {
  return make_array(
      std::vector<float>(std::size_t(slots) * state_size(s), kNan),
      {slots, state_size(s)});
}

DeltaInputs random_inputs(int rows, const DeltaShape& s,
                          mx::Dtype dtype = mx::float32) {
  const int keys = s.heads * s.key_dim, values = s.heads * s.value_dim;
  const auto random = [&](int columns, std::uint64_t seed) {
    return random_floats(std::size_t(rows) * columns, seed);
  };
  const auto unit = [&](std::uint64_t seed) {
    return kernels::l2_norm(make_array(random(keys, seed), {rows, keys}, dtype),
                            s.key_dim, 1e-6f, 1.0f);
  };
  auto decay = random(keys, 4), beta = random(s.heads, 5);
  // Most channels keep what they have, some lose it at once.
  for (float& g : decay) g = -5 * std::pow(0.5f + 0.5f * g, 4.0f);
  for (float& b : beta) b = 0.5f + 0.5f * b;
  DeltaInputs in = {unit(1), unit(2),
                    make_array(random(values, 3), {rows, values}, dtype),
                    make_array(decay, {rows, keys}),
                    make_array(beta, {rows, s.heads}, dtype)};
  mx::eval(in.q, in.k, in.v, in.log_decay, in.beta);
  return in;
}

DeltaInputs rows_of(const DeltaInputs& in, int begin, int end) {
  const auto part = [&](const array& a) {
    return mx::slice(a, {begin, 0}, {end, a.shape(1)});
  };
  return {part(in.q), part(in.k), part(in.v), part(in.log_decay),
          part(in.beta)};
}

// In double, straight from the definition, from an empty state.
struct Exact {
  std::vector<double> rows, state;
};
Exact exact_rule(const DeltaInputs& in, const DeltaShape& s) {
  const auto q = values_of(in.q), k = values_of(in.k), v = values_of(in.v);
  const auto g = values_of(in.log_decay), beta = values_of(in.beta);
  const int rows = in.q.shape(0);
  Exact out{{}, std::vector<double>(state_size(s), 0)};
  out.rows.resize(std::size_t(rows) * s.heads * s.value_dim);
  for (int t = 0; t < rows; ++t)
    for (int h = 0; h < s.heads; ++h)
      for (int j = 0; j < s.value_dim; ++j) {
        const int key = (t * s.heads + h) * s.key_dim;
        const auto at = [&](int i) -> double& {
          return out.state[(h * s.key_dim + i) * s.value_dim + j];
        };
        double known = 0, result = 0;
        for (int i = 0; i < s.key_dim; ++i) {
          at(i) *= std::exp(double{g[key + i]});
          known += at(i) * k[key + i];
        }
        const int value = (t * s.heads + h) * s.value_dim + j;
        const double delta = beta[t * s.heads + h] * (v[value] - known);
        for (int i = 0; i < s.key_dim; ++i) {
          at(i) += k[key + i] * delta;
          result += at(i) * q[key + i];
        }
        out.rows[value] = result;
      }
  return out;
}

double rounding(mx::Dtype dtype) {
  return dtype == mx::bfloat16  ? 0x1p-8
         : dtype == mx::float16 ? 0x1p-11
                                : 0x1p-24;
}

void expect_near(const array& got, const std::vector<double>& want,
                 double bound) {
  const auto values = values_of(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], want[i], bound) << i;
}

// Keys are of length 1 and values within 1, so results and states stay below
// about 2; each token adds two chains of key_dim roundings, and what decays
// takes its errors along.
double bound_of(const DeltaShape& s, int rows) {
  return 2.0 * std::min(rows, 40) * (s.key_dim + 8) * 0x1p-24;
}

TEST(GatedDelta, IsTheRuleWithinBounds) {
  for (const DeltaShape& s : {kShape, DeltaShape{1, 16, 32},
                              DeltaShape{2, 64, 64}, DeltaShape{1, 1, 1}})
    for (auto dtype : {mx::float32, mx::bfloat16, mx::float16}) {
      const auto in = random_inputs(90, s, dtype);
      const auto pool = nan_pool(2, s);
      const auto out = gated_delta(in, pool, slot_spans({{90, -1, 1}}), s);
      EXPECT_EQ(out.rows.dtype(), dtype);
      const Exact exact = exact_rule(in, s);
      expect_near(out.rows, exact.rows, bound_of(s, 90) + 2 * rounding(dtype));
      expect_near(mx::slice(out.pool, {1, 0}, {2, state_size(s)}), exact.state,
                  bound_of(s, 90));
    }
}

TEST(GatedDelta, PlainFormsAreTheRule) {
  for (const DeltaShape& s : {kShape, DeltaShape{2, 64, 64}}) {
    const auto in = random_inputs(150, s);
    const Exact exact = exact_rule(in, s);
    const auto none = mx::zeros({state_size(s)});
    for (int chunk : {1, 16, 64}) {
      SCOPED_TRACE(chunk);
      const auto out = plain::gated_delta(in, none, s, chunk);
      // A chunk solves a system of equations; its inverse is below 10 in size.
      expect_near(out.rows, exact.rows, 10 * bound_of(s, 150));
      expect_near(out.pool, exact.state, 10 * bound_of(s, 150));
    }
  }
}

// Ours against the chunked form from a state that is not empty.
TEST(GatedDelta, GoesOnFromAStateAsTheChunkedFormDoes) {
  const auto in = random_inputs(70, kShape);
  const auto pool = nan_pool(3);
  gated_delta(rows_of(in, 0, 23), pool, slot_spans({{23, -1, 2}}), kShape)
      .pool.eval();
  const auto state = mx::reshape(
      mx::slice(pool, {2, 0}, {3, state_size(kShape)}), {state_size(kShape)});
  const auto plain = plain::gated_delta(rows_of(in, 23, 70), state, kShape, 64);
  const auto ours =
      gated_delta(rows_of(in, 23, 70), pool, slot_spans({{47, 2, 0}}), kShape);
  const auto want = values_of(plain.rows);
  expect_near(ours.rows, {want.begin(), want.end()}, 10 * bound_of(kShape, 70));
}

// The chains that delta_task.h promises, one by one. Without decay, as e^0 is
// exactly 1 and no other exponential is the library's.
TEST(GatedDelta, HasTheBitsOfItsChains) {
  const DeltaShape s = {2, 20, 33};
  constexpr int kRows = 21;
  auto in = random_inputs(kRows, s);
  in.log_decay = mx::zeros(in.log_decay.shape());
  const auto q = values_of(in.q), k = values_of(in.k), v = values_of(in.v);
  const auto beta = values_of(in.beta);
  std::vector<float> rows(v.size()), state(state_size(s), 0.0f);
  for (int t = 0; t < kRows; ++t)
    for (int h = 0; h < s.heads; ++h)
      for (int j = 0; j < s.value_dim; ++j) {
        const int key = (t * s.heads + h) * s.key_dim;
        float* column = &state[h * s.key_dim * s.value_dim + j];
        float known = 0, result = 0;
        for (int i = 0; i < s.key_dim; ++i)
          known = std::fma(column[i * s.value_dim], k[key + i], known);
        const int value = (t * s.heads + h) * s.value_dim + j;
        const float error = v[value] - known;
        const float delta = beta[t * s.heads + h] * error;
        for (int i = 0; i < s.key_dim; ++i) {
          float& x = column[i * s.value_dim];
          x = std::fma(k[key + i], delta, x);
          result = std::fma(x, q[key + i], result);
        }
        rows[value] = result;
      }
  const auto pool = nan_pool(1, s);
  const auto out = gated_delta(in, pool, slot_spans({{kRows, -1, 0}}), s);
  EXPECT_EQ(values_of(out.rows), rows);
  EXPECT_EQ(values_of(pool), state);
}

// ---- The same bits --------------------------------------------------------

// Rows and last state of a sequence that is cut into spans of `size` rows.
std::vector<std::uint8_t> cut_into(const DeltaInputs& in, int size,
                                   const DeltaShape& s) {
  const int rows = in.q.shape(0);
  const auto pool = nan_pool(2, s);
  std::vector<std::uint8_t> all;
  int slot = -1;
  for (int begin = 0; begin < rows; begin += size) {
    const int end = std::min(rows, begin + size), next = slot == 0 ? 1 : 0;
    const auto out = gated_delta(rows_of(in, begin, end), pool,
                                 slot_spans({{end - begin, slot, next}}), s);
    for (float x : values_of(out.rows)) EXPECT_FALSE(std::isnan(x));
    const auto part = bytes_of(out.rows);
    all.insert(all.end(), part.begin(), part.end());
    slot = next;
  }
  const auto state = row_bytes_of(pool, slot, 1);
  all.insert(all.end(), state.begin(), state.end());
  return all;
}

TEST(GatedDeltaBits, DoNotDependOnTheCutThreadsOrInstructionSet) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16}) {
    const auto in = random_inputs(75, kShape, dtype);
    const auto want = cut_into(in, 75, kShape);
    with_every_isa([&] {
      for (int threads : {1, 2})
        with_threads(threads, [&] {
          for (int size : {1, 2, 15, 16, 17, 64, 75})
            ASSERT_TRUE(cut_into(in, size, kShape) == want) << size;
        });
    });
  }
}

// Enough state for threads to be used, and for items of part of a head.
TEST(GatedDeltaBits, OfManyItems) {
  const DeltaShape shape = {2, 64, 128};
  const auto in = random_inputs(40, shape);
  std::vector<std::uint8_t> want;
  with_every_isa([&] {
    for (int threads : {1, 2, 7})
      with_threads(threads, [&] {
        const auto got = cut_into(in, 33, shape);
        if (want.empty()) want = got;
        ASSERT_TRUE(got == want);
      });
  });
}

TEST(GatedDeltaBits, DoNotDependOnTheCompany) {
  const auto in = random_inputs(60, kShape);
  const auto pool = nan_pool(8);
  const auto alone = nan_pool(8);
  gated_delta(rows_of(in, 0, 10), pool, slot_spans({{10, -1, 4}}), kShape)
      .pool.eval();
  gated_delta(rows_of(in, 0, 10), alone, slot_spans({{10, -1, 4}}), kShape)
      .pool.eval();
  // Two go on from one state, one begins, one has no rows.
  const auto together = gated_delta(
      in, pool, slot_spans({{17, 4, 1}, {1, -1, 0}, {0, 4, 7}, {42, 4, 6}}),
      kShape);
  const struct {
    int begin, end, from, to;
  } spans[] = {{0, 17, 4, 1}, {17, 18, -1, 0}, {18, 60, 4, 6}};
  for (const auto& s : spans) {
    const auto out =
        gated_delta(rows_of(in, s.begin, s.end), alone,
                    slot_spans({{s.end - s.begin, s.from, s.to}}), kShape);
    EXPECT_EQ(bytes_of(out.rows),
              row_bytes_of(together.rows, s.begin, s.end - s.begin));
    EXPECT_EQ(row_bytes_of(alone, s.to, 1), row_bytes_of(pool, s.to, 1));
  }
  EXPECT_EQ(row_bytes_of(pool, 7, 1), row_bytes_of(pool, 4, 1));
  EXPECT_EQ(row_bytes_of(pool, 4, 1), row_bytes_of(alone, 4, 1));
}

// ---- In place -------------------------------------------------------------

TEST(GatedDelta, WritesItsSlotAndNoOther) {
  const auto in = random_inputs(5, kShape);
  const auto pool = nan_pool(4);
  const void* address = pool.data<char>();
  auto out = gated_delta(in, pool, slot_spans({{5, -1, 2}}), kShape);
  for (float x : values_of(out.rows)) ASSERT_FALSE(std::isnan(x));
  EXPECT_EQ(out.pool.data<char>(), address);
  EXPECT_EQ(pool.data<char>(), address);
  for (int slot = 0; slot < 4; ++slot)
    for (float x :
         values_of(mx::slice(pool, {slot, 0}, {slot + 1, state_size(kShape)})))
      ASSERT_EQ(std::isnan(x), slot != 2) << slot;
  // Without a slot to go to nothing is written.
  const auto before = bytes_of(pool);
  const auto again = gated_delta(in, pool, slot_spans({{5, 2, -1}}), kShape);
  for (float x : values_of(again.rows)) ASSERT_FALSE(std::isnan(x));
  EXPECT_EQ(bytes_of(pool), before);
}

TEST(GatedDelta, AFailedStepLeavesWhatItStartedFrom) {
  const auto in = random_inputs(30, kShape);
  for (FaultStage stage :
       {FaultStage::build, FaultStage::eval, FaultStage::task}) {
    const auto pool = nan_pool(3);
    gated_delta(rows_of(in, 0, 20), pool, slot_spans({{20, -1, 0}}), kShape)
        .pool.eval();
    const auto committed = row_bytes_of(pool, 0, 1);
    const auto step = [&] {
      return bytes_of(gated_delta(rows_of(in, 20, 30), pool,
                                  slot_spans({{10, 0, 1}}), kShape)
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
  }
}

TEST(GatedDelta, TakesViews) {
  const DeltaShape shape = {2, 16, 16};
  const auto in = random_inputs(6, shape);
  const auto want = bytes_of(
      gated_delta(in, nan_pool(1, shape), slot_spans({{6, -1, 0}}), shape)
          .rows);
  const auto all = mx::concatenate({in.q, in.k, in.v}, 1);
  const auto part = [&](int i) {
    return mx::slice(all, {0, 32 * i}, {6, 32 * (i + 1)});
  };
  const DeltaInputs views = {
      part(0), part(1), part(2),
      mx::transpose(mx::contiguous(mx::transpose(in.log_decay))), in.beta};
  EXPECT_EQ(bytes_of(gated_delta(views, nan_pool(1, shape),
                                 slot_spans({{6, -1, 0}}), shape)
                         .rows),
            want);
}

TEST(GatedDelta, RefusesWhatDoesNotFit) {
  const auto in = random_inputs(4, kShape);
  const auto pool = nan_pool(3);
  const auto refused = [&](const DeltaInputs& inputs,
                           const std::vector<SlotSpan>& spans) {
    EXPECT_THROW(gated_delta(inputs, pool, slot_spans(spans), kShape),
                 std::invalid_argument);
  };
  refused(in, {{4, 1, 1}});
  refused(in, {{2, -1, 1}, {2, -1, 1}});
  refused(in, {{2, 0, 1}, {2, 1, 2}});
  refused(in, {{4, 3, 1}});
  refused(in, {{4, -1, 3}});
  refused(in, {{4, -2, 0}});
  refused(in, {{3, -1, 0}});
  DeltaInputs wrong = in;
  wrong.q = in.v;
  refused(wrong, {{4, -1, 0}});
  wrong = in;
  wrong.k = mx::astype(in.k, mx::bfloat16);
  refused(wrong, {{4, -1, 0}});
  wrong = in;
  wrong.log_decay = mx::astype(in.log_decay, mx::bfloat16);
  refused(wrong, {{4, -1, 0}});
  EXPECT_THROW(gated_delta(in, mx::astype(pool, mx::bfloat16),
                           slot_spans({{4, -1, 0}}), kShape),
               std::invalid_argument);
}

// ---- Its gate -------------------------------------------------------------

TEST(DecayGate, IsExactWithinBounds) {
  constexpr int kHeads = 3, kDim = 20, kRows = 7;
  const auto x_values = random_floats(kRows * kHeads * kDim, 1);
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
    for (std::optional<float> bound :
         {std::optional<float>(-5.0f), std::optional<float>()}) {
      auto large = x_values;
      for (float& x : large) x *= 8;
      const auto x = make_array(large, {kRows, kHeads * kDim}, dtype);
      const auto rate = make_array({-1.5f, 0.0f, 1.0f}, {kHeads});
      const auto bias =
          make_array(random_floats(kHeads * kDim, 2), {kHeads * kDim}, dtype);
      const auto out = decay_gate(x, rate, bias, bound);
      ASSERT_EQ(out.dtype(), mx::float32);
      const auto got = values_of(out), in = values_of(x), b = values_of(bias);
      const auto plain = values_of(plain::decay_gate(x, rate, bias, bound));
      const auto rates = values_of(rate);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto d = i % (kHeads * kDim);
        const double a = std::exp(double{rates[d / kDim]});
        const double sum = double{in[i]} + b[d];
        const double want = bound ? *bound / (1 + std::exp(-a * sum))
                                  : -a * std::log1p(std::exp(sum));
        // A rounding of the argument weighs as much as the argument is large.
        const double relative = (12 + 3 * std::abs(a * sum)) * 0x1p-24;
        ASSERT_NEAR(got[i], want, relative * std::abs(want)) << i;
        ASSERT_NEAR(plain[i], want, 4 * relative * std::abs(want)) << i;
      }
    }
}

TEST(DecayGate, RefusesWhatDoesNotFit) {
  const auto x = mx::zeros({2, 6});
  EXPECT_THROW(decay_gate(x, mx::zeros({4}), mx::zeros({6}), {}),
               std::invalid_argument);
  EXPECT_THROW(decay_gate(x, mx::zeros({2}), mx::zeros({5}), {}),
               std::invalid_argument);
  EXPECT_THROW(decay_gate(x, mx::zeros({2}), mx::zeros({6}), 1.0f),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
