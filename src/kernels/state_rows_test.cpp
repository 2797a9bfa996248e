#include "kernels/state_rows.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <limits>

#include "base/limits.h"
#include "kernels/cpu/state_operand.h"
#include "kernels/fault.h"
#include "kernels/plain_state.h"
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
using test_support::with_every_isa;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<RowCodec> kCodecs = {{8, 32}, {8, 64}, {8, 128},
                                       {4, 32}, {4, 64}, {4, 128}};

StateRows empty_state(int blocks, int width, mx::Dtype dtype,
                      const RowCodec& codec, int from) {
  const int rows = blocks * kBlockTokens;
  const int bytes = int(quantized_row_bytes(width, dtype, codec));
  StateRows state{
      .plain = make_array(std::vector<float>(std::size_t(rows) * width, kNan),
                          {rows, width}, dtype),
      .dim = width,
      .quantized = mx::full({rows, bytes}, 255, mx::uint8),
      .codec = codec,
      .quantized_from = from};
  state.quantized->eval();
  return state;
}

void evaluate(const StateRows& state) {
  mx::eval(state.plain, *state.quantized);
}

// What MLX makes of the same rows, in our order of bytes.
std::vector<std::uint8_t> mlx_bytes(const array& rows, const RowCodec& codec) {
  const auto q = mx::quantize(rows, codec.group_size, codec.bits);
  std::vector<std::uint8_t> all;
  for (int r = 0; r < rows.shape(0); ++r)
    for (const array& part : q) {
      const auto bytes = row_bytes_of(part, r, 1);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  return all;
}

// Rows of many magnitudes and signs; some constant, some zero.
array some_rows(int rows, int width, mx::Dtype dtype) {
  auto values = random_floats(std::size_t(rows) * width, 3);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < width; ++i) {
      float& x = values[std::size_t(r) * width + i];
      if (r % 7 == 1) x = 0.0f;
      if (r % 7 == 2) x = -1.5f;
      if (r % 7 == 3) x = std::abs(x) * 100.0f;
      if (r % 7 == 4) x *= 1e-4f;
      if (r % 7 == 5 && i % 32 == 5) x *= 50.0f;
    }
  return make_array(values, {rows, width}, dtype);
}

TEST(StateRows, QuantizeAsMlxDoes) {
  for (auto dtype : {mx::float32, mx::bfloat16, mx::float16})
    for (const RowCodec& codec : kCodecs) {
      SCOPED_TRACE(::testing::Message() << dtype << ", " << codec.bits << " in "
                                        << codec.group_size);
      const auto rows = some_rows(70, 256, dtype);
      with_every_isa([&] {
        const auto state = append(empty_state(2, 256, dtype, codec, 0), rows,
                                  one_span(100, 70, {1}));
        evaluate(state);
        EXPECT_TRUE(row_bytes_of(*state.quantized, kBlockTokens + 100, 70) ==
                    mlx_bytes(rows, codec));
      });
    }
}

TEST(StateRows, RowBytes) {
  EXPECT_EQ(quantized_row_bytes(576, mx::bfloat16, {8, 64}), 576 + 2 * 18);
  EXPECT_EQ(quantized_row_bytes(576, mx::float32, {4, 32}), 288 + 2 * 72);
  const auto format = cpu::row_format(576, mx::bfloat16, {8, 64});
  EXPECT_EQ(format.words_bytes, 576);
  EXPECT_EQ(format.groups, 9);
}

TEST(StateRows, WhatCanBeQuantized) {
  EXPECT_TRUE(can_quantize(1, 576, {8, 64}));
  EXPECT_TRUE(can_quantize(8, 80, {8, 128}));
  EXPECT_FALSE(can_quantize(1, 64, {8, 128}));
  EXPECT_FALSE(can_quantize(16, 20, {8, 64}));
  EXPECT_FALSE(can_quantize(1, 64, {6, 64}));
  EXPECT_FALSE(can_quantize(1, 64, {8, 16}));
}

TEST(StateRows, PositionsDecideWhereARowGoes) {
  for (auto dtype : {mx::float32, mx::bfloat16}) {
    const RowCodec codec = {8, 32};
    const auto state = empty_state(4, 64, dtype, codec, 256);
    const auto untouched = bytes_of(*state.quantized);
    const auto rows = some_rows(20, 64, dtype);
    const auto next = append(state, rows, one_span(250, 20, {3, 1}));
    evaluate(next);
    // In place.
    EXPECT_EQ(next.plain.data<char>(), state.plain.data<char>());
    EXPECT_EQ(next.quantized->data<char>(), state.quantized->data<char>());
    EXPECT_EQ(row_bytes_of(state.plain, 3 * 256 + 250, 6),
              row_bytes_of(rows, 0, 6));
    EXPECT_EQ(row_bytes_of(*state.quantized, 256, 14),
              mlx_bytes(mx::slice(rows, {6, 0}, {20, 64}), codec));
    // And nothing else.
    for (float x : values_of(mx::slice(state.plain, {0, 0}, {3 * 256, 64})))
      ASSERT_TRUE(std::isnan(x));
    EXPECT_EQ(row_bytes_of(*state.quantized, 3 * 256, 256),
              std::vector<std::uint8_t>(
                  untouched.begin(),
                  untouched.begin() + 256 * state.quantized->shape(1)));
  }
}

TEST(StateRows, StepsThatDoNotReachAPoolLeaveItsHandle) {
  const auto state = empty_state(4, 64, mx::float32, {8, 32}, 256);
  const auto early =
      append(state, some_rows(20, 64, mx::float32), one_span(0, 20, {3, 1}));
  EXPECT_EQ(early.quantized->id(), state.quantized->id());
  EXPECT_NE(early.plain.id(), state.plain.id());
  const auto late =
      append(state, some_rows(20, 64, mx::float32), one_span(256, 20, {3, 1}));
  EXPECT_EQ(late.plain.id(), state.plain.id());
  EXPECT_NE(late.quantized->id(), state.quantized->id());
}

// Copy on write of the block that holds positions 256..: only the pool that
// has them is written, whatever the other has under the same ids.
TEST(StateRows, CopiesFollowTheirBlock) {
  const RowCodec codec = {8, 32};
  const auto old = some_rows(30, 64, mx::float32);
  const auto rows = mx::slice(old, {3, 0}, {5, 64});
  auto batch = *one_span(270, 2, {0, 4});
  batch.copies = {{1 * 256, 4 * 256, 14}};
  const auto state = empty_state(6, 64, mx::float32, codec, 256);
  evaluate(append(state, old, one_span(256, 30, {0, 1})));
  evaluate(append(state, old, one_span(0, 30, {1})));
  evaluate(append(state, rows, std::make_shared<const RaggedBatch>(batch)));
  EXPECT_EQ(row_bytes_of(*state.quantized, 4 * 256, 14),
            row_bytes_of(*state.quantized, 256, 14));
  EXPECT_EQ(row_bytes_of(*state.quantized, 4 * 256 + 14, 2),
            mlx_bytes(rows, codec));
  for (float x : values_of(mx::slice(state.plain, {512, 0}, {6 * 256, 64})))
    ASSERT_TRUE(std::isnan(x));

  // The same block ids at positions whose rows are plain.
  auto early = *one_span(14, 2, {4});
  early.copies = batch.copies;
  const auto other = empty_state(6, 64, mx::float32, codec, 256);
  evaluate(append(other, old, one_span(256, 30, {0, 1})));
  evaluate(append(other, old, one_span(0, 30, {1})));
  evaluate(append(other, rows, std::make_shared<const RaggedBatch>(early)));
  EXPECT_EQ(row_bytes_of(other.plain, 4 * 256, 14), row_bytes_of(old, 0, 14));
  for (auto byte : row_bytes_of(*other.quantized, 4 * 256, 256))
    ASSERT_EQ(byte, 255);
}

TEST(StateRows, WhatIsNotFiniteStaysVisible) {
  for (float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    auto values = random_floats(64, 5);
    values[40] = bad;
    const RowCodec codec = {8, 32};
    const auto state =
        append(empty_state(1, 64, mx::bfloat16, codec, 0),
               make_array(values, {1, 64}, mx::bfloat16), one_span(0, 1, {0}));
    evaluate(state);
    const auto read = values_of(plain::dequantize_rows(
        mx::slice(*state.quantized, {0, 0}, {1, state.quantized->shape(1)}), 64,
        mx::bfloat16, codec));
    for (int i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(read[i]), i >= 32);
  }
}

TEST(StateRows, AppendVisitsEveryFaultPoint) {
  const auto state = empty_state(2, 64, mx::float32, {8, 32}, 0);
  const auto rows = some_rows(2, 64, mx::float32);
  for (auto stage : {FaultStage::build, FaultStage::eval, FaultStage::task}) {
    int seen = 0;
    set_fault_hook([&](FaultStage at) { seen += at == stage; });
    evaluate(append(state, rows, one_span(0, 2, {1})));
    set_fault_hook({});
    EXPECT_EQ(seen, 1);
  }
}

TEST(StateRows, RefuseWhatDoesNotFit) {
  const auto state = empty_state(2, 64, mx::float32, {8, 32}, 0);
  const auto rows = some_rows(2, 64, mx::float32);
  const auto good = one_span(0, 2, {1});
  EXPECT_THROW(append(state, mx::astype(rows, mx::float16), good),
               std::invalid_argument);
  EXPECT_THROW(append(state, rows, one_span(0, 3, {1})), std::invalid_argument);
  EXPECT_THROW(append(state, rows, one_span(0, 2, {2})), std::invalid_argument);
  auto without_spans = *good;
  without_spans.spans.clear();
  EXPECT_THROW(
      append(state, rows, std::make_shared<const RaggedBatch>(without_spans)),
      std::invalid_argument);
  auto other = state;
  other.codec.bits = 4;
  EXPECT_THROW(append(other, rows, good), std::invalid_argument);
  other = state;
  other.quantized_from = 64;
  EXPECT_THROW(append(other, rows, good), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
