// Attention of every kind that is not plain grouped attention
// (attention_test.cpp): parts, windows, caps, sinks, quantized state.
#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/limits.h"
#include "kernels/attention_testing.h"
#include "kernels/ops.h"
#include "kernels/test_support.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;
using test_support::AttentionKind;
using test_support::AttentionSequence;
using test_support::bytes_of;
using test_support::row_bytes_of;
using test_support::values_of;
using test_support::with_every_isa;
using test_support::with_threads;

AttentionShape shape_of(int heads, int kv_heads, int key_dim, int value_dim,
                        int window = 0, float softcap = 0.0f) {
  return {heads,     kv_heads,
          key_dim,   1.0f / std::sqrt(static_cast<float>(key_dim)),
          value_dim, window,
          softcap};
}

const std::vector<AttentionKind>& kinds() {
  const RowCodec eight = {8, 64}, four = {4, 32}, wide = {8, 128};
  static const std::vector<AttentionKind> all = {
      {"latent", shape_of(5, 1, 80, 64), {64, 16}, true},
      {"latent_half", shape_of(20, 1, 96, 64), {64, 32}, true, mx::bfloat16},
      {"latent_alone", shape_of(6, 1, 64, 64), {64}, true, mx::float16},
      {"latent_odd", shape_of(3, 1, 31, 20), {20, 11}, true},
      {"two_parts", shape_of(4, 2, 24, 40), {20, 4}},
      {"values_differ", shape_of(4, 2, 48, 32), {48}, false, mx::bfloat16},
      {"window_1", shape_of(4, 2, 32, 32, 1), {32}},
      {"window_5", shape_of(4, 2, 32, 32, 5), {32}, false, mx::bfloat16},
      {"window_70", shape_of(6, 2, 16, 16, 70), {16}},
      {"window_256", shape_of(4, 1, 32, 32, 256), {32}, false, mx::float16},
      {"softcap", shape_of(4, 2, 32, 32, 0, 1.5f), {32}},
      {"sinks",
       shape_of(4, 2, 32, 32, 40),
       {32},
       false,
       mx::bfloat16,
       {},
       0,
       true},
      {"q8", shape_of(4, 2, 64, 64), {64}, false, mx::float32, eight, 0},
      {"q4", shape_of(4, 2, 32, 32), {32}, false, mx::bfloat16, four, 256},
      {"q8_latent",
       shape_of(5, 1, 192, 128),
       {128, 64},
       true,
       mx::bfloat16,
       eight,
       256},
      {"q8_latent_plain_rope",
       shape_of(5, 1, 144, 128),
       {128, 16},
       true,
       mx::float16,
       eight,
       0},
      {"q8_across_heads",
       shape_of(8, 8, 80, 80, 50, 4.0f),
       {80},
       false,
       mx::float32,
       wide,
       256,
       true},
      {"q4_window",
       shape_of(4, 2, 32, 32, 100),
       {32},
       false,
       mx::float16,
       four,
       0},
  };
  return all;
}

double half_ulp(mx::Dtype dtype) {
  return dtype == mx::bfloat16 ? 0x1p-8 : dtype == mx::float16 ? 0x1p-11 : 0;
}

void expect_exact(const AttentionSequence& s, int start, const array& out) {
  const auto got = values_of(out);
  const int row = s.kind().out_row();
  for (int r = 0; r < out.shape(0); ++r) {
    const auto want = s.exact_row(start + r);
    for (int i = 0; i < row; ++i)
      ASSERT_NEAR(got[std::size_t(r) * row + i], want.out[i],
                  want.bound[i] + half_ulp(s.kind().dtype) *
                                      (std::abs(want.out[i]) + want.bound[i]))
          << "position " << start + r << ", column " << i;
  }
}

class AttentionKinds : public ::testing::TestWithParam<AttentionKind> {};

TEST_P(AttentionKinds, AreExactWithinBounds) {
  const AttentionSequence s(GetParam(), 330, 7);
  expect_exact(s, 0, s.attend(0, 30));
  expect_exact(s, 240, s.attend(240, 40));
  expect_exact(s, 329, s.attend(329, 1));
}

TEST_P(AttentionKinds, PlainCompositionIsExactWithinBounds) {
  const AttentionSequence s(GetParam(), 330, 8);
  expect_exact(s, 0, s.attend_plain(0, 30));
  expect_exact(s, 240, s.attend_plain(240, 40));
}

void expect_same_cut(const AttentionSequence& s, const std::vector<int>& cuts) {
  const auto all = s.attend(0, s.length());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int count = cuts[i + 1] - cuts[i];
    ASSERT_EQ(bytes_of(s.attend(cuts[i], count)),
              row_bytes_of(all, cuts[i], count))
        << "rows " << cuts[i] << " to " << cuts[i + 1];
  }
}

TEST_P(AttentionKinds, DoNotDependOnCuts) {
  const AttentionSequence s(GetParam(), 600, 9);
  std::vector<int> ones(21);
  std::iota(ones.begin(), ones.end(), 248);
  expect_same_cut(s, ones);
  expect_same_cut(s, {0, 64, 128, 192, 256, 320, 384, 448, 600});
  expect_same_cut(s, {0, 1, 3, 10, 11, 75, 140, 255, 258, 399, 512, 599, 600});
}

TEST_P(AttentionKinds, DoNotDependOnThreadsOrInstructionSet) {
  const AttentionSequence s(GetParam(), 300, 12);
  const auto once = bytes_of(s.attend(200, 100));
  with_every_isa([&] {
    for (int threads : {1, 2})
      with_threads(threads, [&] {
        ASSERT_EQ(bytes_of(s.attend(200, 100)), once);
        ASSERT_EQ(bytes_of(s.attend(299, 1)),
                  row_bytes_of(s.attend(200, 100), 99, 1));
      });
  });
}

INSTANTIATE_TEST_SUITE_P(All, AttentionKinds, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

// Chunks that a window cuts off, and chunks that are split over threads.
TEST(AttentionKindsBits, DoNotDependOnCutsOfLongContexts) {
  const RowCodec eight = {8, 64};
  for (const AttentionKind& kind : std::vector<AttentionKind>{
           {"window", shape_of(6, 2, 32, 32, 1100), {32}},
           {"short", shape_of(6, 2, 32, 32, 20), {32}},
           {"latent", shape_of(20, 1, 48, 32), {32, 16}, true, mx::bfloat16},
           {"q8",
            shape_of(4, 1, 64, 64),
            {64},
            true,
            mx::float32,
            eight,
            1024}}) {
    SCOPED_TRACE(kind.name);
    const AttentionSequence s(kind, 2200, 10);
    expect_same_cut(s, {0, 1023, 1024, 1025, 1030, 1043, 1044, 1130, 2047, 2048,
                        2049, 2112, 2199, 2200});
    const auto last = bytes_of(s.attend(2199, 1));
    expect_exact(s, 2198, s.attend(2198, 2));
    for (int threads : {1, 2, 3})
      with_threads(threads,
                   [&] { ASSERT_EQ(bytes_of(s.attend(2199, 1)), last); });
  }
}

TEST(AttentionKindsBits, DoNotDependOnOtherSpans) {
  for (const AttentionKind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const AttentionSequence a(kind, 300, 20, 1), b(kind, 700, 30, 12);
    auto state = a.empty_state(b.blocks_end());
    state = a.append_to(state, 0, 300);
    state = b.append_to(state, 0, 700);
    RaggedBatch batch;
    for (const auto& [s, start, rows] :
         {std::tuple(&a, 299, 1), {&a, 300, 0}, {&b, 660, 40}})
      batch.spans.push_back({std::exchange(batch.tokens, batch.tokens + rows),
                             rows, start, s->table(start)});
    const auto q = mx::concatenate({a.queries(299, 1), b.queries(660, 40)}, 0);
    const auto out = attention(q, state.keys, state.value_rows(),
                               std::make_shared<const RaggedBatch>(batch),
                               kind.shape, a.sinks());
    EXPECT_EQ(row_bytes_of(out, 0, 1), bytes_of(a.attend(299, 1)));
    if (!kind.sinks) {  // b's are others
      EXPECT_EQ(row_bytes_of(out, 1, 40), bytes_of(b.attend(660, 40)));
    }
  }
}

// Rows in the plain pool stay as they are whatever comes to lie behind them.
TEST(AttentionKindsBits, RowsBeforeTheQuantizedOnesAreThoseOfPlainState) {
  for (const AttentionKind& kind : kinds()) {
    if (!kind.codec || kind.quantized_from == 0) continue;
    SCOPED_TRACE(kind.name);
    AttentionKind unquantized = kind;
    unquantized.codec = std::nullopt;
    const AttentionSequence s(kind, 300, 14), t(unquantized, 300, 14);
    const auto out = s.attend(0, 300), plain = t.attend(0, 300);
    EXPECT_EQ(row_bytes_of(out, 0, 256), row_bytes_of(plain, 0, 256));
    EXPECT_NE(row_bytes_of(out, 256, 1), row_bytes_of(plain, 256, 1));
  }
}

TEST(AttentionKindsBits, AKeyInTwoPartsIsAKey) {
  const AttentionKind two = {"two", shape_of(5, 1, 80, 64), {64, 16}, true};
  const AttentionSequence s(two, 200, 15);
  auto state = s.append_to(s.empty_state(s.blocks_end()), 0, 200);
  const auto wide =
      mx::concatenate({state.keys[0].plain, state.keys[1].plain}, 1);
  EXPECT_EQ(bytes_of(attention(
                s.queries(0, 200), {{.plain = wide, .dim = 80}}, state.keys[0],
                test_support::one_span(0, 200, s.table(0)), two.shape)),
            bytes_of(s.attend(0, 200)));
}

TEST(AttentionKindsBits, AWindowThatHoldsEverythingIsNone) {
  const AttentionKind all = {"all", shape_of(4, 2, 32, 32), {32}};
  AttentionKind windowed = all;
  for (int window : {300, std::numeric_limits<int>::max()}) {
    windowed.shape.window = window;
    EXPECT_EQ(bytes_of(AttentionSequence(all, 300, 16).attend(100, 200)),
              bytes_of(AttentionSequence(windowed, 300, 16).attend(100, 200)));
  }
}

TEST(AttentionKindsRefuse, WhatDoesNotFit) {
  const AttentionKind kind = {"q8",        shape_of(4, 2, 64, 64, 100),
                              {64},        false,
                              mx::float32, RowCodec{8, 64},
                              256};
  const AttentionSequence s(kind, 300, 54);
  const auto state = s.append_to(s.empty_state(s.blocks_end()), 0, 300);
  const auto q = s.queries(290, 10);
  const auto good = test_support::one_span(290, 10, s.table(290));
  const auto run = [&](std::vector<StateRows> keys, AttentionShape shape,
                       std::optional<array> sinks = std::nullopt) {
    attention(q, keys, state.values[0], good, shape, sinks);
  };
  EXPECT_NO_THROW(run(state.keys, kind.shape));
  EXPECT_THROW(run({}, kind.shape), std::invalid_argument);
  EXPECT_THROW(run({state.keys[0], state.keys[0]}, kind.shape),
               std::invalid_argument);
  auto shape = kind.shape;
  shape.window = -1;
  EXPECT_THROW(run(state.keys, shape), std::invalid_argument);
  shape = kind.shape;
  shape.value_dim = 32;
  EXPECT_THROW(run(state.keys, shape), std::invalid_argument);
  EXPECT_THROW(run(state.keys, kind.shape, mx::zeros({3})),
               std::invalid_argument);
  auto keys = state.keys[0];
  keys.quantized_from = 100;
  EXPECT_THROW(run({keys}, kind.shape), std::invalid_argument);
  keys = state.keys[0];
  keys.codec.bits = 4;
  EXPECT_THROW(run({keys}, kind.shape), std::invalid_argument);
  keys.codec = {5, 64};
  EXPECT_THROW(run({keys}, kind.shape), std::invalid_argument);
  // A block that the window needs.
  auto table = s.table(290);
  table[0] = -1;
  EXPECT_THROW(attention(q, state.keys, state.values[0],
                         test_support::one_span(290, 10, {-1, 1}), kind.shape),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
