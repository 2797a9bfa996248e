#include <gtest/gtest.h>

#include "kernels/plain.h"
#include "kernels/weight_testing.h"

namespace reprise::kernels {
namespace {

using namespace testing;

array take(const Weights& w, const array& ids, mx::Dtype type) {
  return w.dense ? take_rows(*w.dense, ids, type)
                 : take_rows(*w.quantized, ids, type);
}

array int_list(const std::vector<int>& ids) {
  return array(ids.begin(), {static_cast<int>(ids.size())}, mx::int32);
}

const std::vector<int> kIds = {0, 40, 3, 3, 17, 39, 1};

TEST(TakeRows, AreTheWeightsRounded) {
  const KernelSettings restore;
  RandomArrays random;
  for (const Weights& w : all_weights(random, 41, 1152)) {
    const auto all = meaning(w);
    std::vector<float> expected;
    for (int id : kIds)
      expected.insert(expected.end(), all.begin() + id * 1152,
                      all.begin() + (id + 1) * 1152);
    const array wide(expected.begin(), {static_cast<int>(kIds.size()), 1152});
    for (cpu::Isa isa : cpu::available_isas())
      for (auto type : kFloats) {
        cpu::set_isa(isa);
        EXPECT_EQ(bits_of(take(w, int_list(kIds), type)),
                  bits_of(mx::astype(wide, type)))
            << w.name << " to " << type_name(type) << ", " << isa_name(isa);
      }
  }
}

// MLX's dequantize rounds scale times field before it adds the bias.
TEST(TakeRows, AgreeWithThePlainComposition) {
  RandomArrays random;
  for (const Weights& w : all_weights(random, 41, 128)) {
    const auto ours = to_floats(take(w, int_list(kIds), mx::float32));
    const auto plain = to_floats(
        w.dense ? plain::take_rows(*w.dense, int_list(kIds), mx::float32)
                : plain::take_rows(*w.quantized, int_list(kIds), mx::float32));
    ASSERT_EQ(ours.size(), plain.size());
    // At most 255 * 0.6 in size, rounded three times between the two.
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_NEAR(ours[i], plain[i], w.dense ? 0 : 3 * 153 * 0x1p-24) << w.name;
  }
}

TEST(TakeRows, DenseColumnsNeedNotFillTheLanes) {
  RandomArrays random;
  for (auto type : kFloats)
    for (int columns : {1, 15, 17, 1030}) {
      const array w = random.floats(41, columns, type);
      EXPECT_EQ(bits_of(take_rows(w, int_list(kIds), mx::float16)),
                bits_of(plain::take_rows(w, int_list(kIds), mx::float16)));
    }
}

TEST(TakeRows, ManyNoneAndViews) {
  RandomArrays random;
  const Weights w = quantized_weights(random, 41, 64, 4, 32, mx::float16);
  std::vector<int> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(i * 7 % 41);
  const array reversed = mx::slice(int_list(ids), {299}, {-301}, {-1});
  EXPECT_EQ(bits_of(take(w, reversed, mx::bfloat16)),
            bits_of(take(w, mx::contiguous(reversed), mx::bfloat16)));
  array none = take(w, int_list({}), mx::bfloat16);
  mx::eval(none);
  EXPECT_EQ(none.shape(), (mx::Shape{0, 64}));
}

TEST(TakeRows, RefusesIdsThatAreNoRows) {
  RandomArrays random;
  const array w = random.floats(41, 64, mx::float32);
  for (int id : {-1, 41, 1 << 30}) {
    array out = take_rows(w, int_list({3, id}), mx::float32);
    EXPECT_THROW(mx::eval(out), std::runtime_error) << id;
  }
  EXPECT_THROW(take_rows(w, mx::astype(int_list({1}), mx::uint32), mx::float32),
               std::invalid_argument);
  EXPECT_THROW(take_rows(w, int_list({1}), mx::int32), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::kernels
