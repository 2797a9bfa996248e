#include "layers/stacked_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using ::testing::AllOf;
using testing::checkpoint_of;
using testing::close;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::Tensors;
using testing::thrown_by;

TEST(StackedMatrix, HeadsAreMultipliedEachByItsOwn) {
  const mx::array w = mx::random::normal({3, 5, 8});
  const mx::array x = mx::random::normal({4, 3 * 8});
  const auto heads = mx::transpose(mx::reshape(x, {4, 3, 8}), {1, 0, 2});
  const auto want = mx::reshape(
      mx::transpose(mx::matmul(heads, mx::swapaxes(w, 1, 2)), {1, 0, 2}),
      {4, 15});
  EXPECT_TRUE(close(head_matmul(x, StackedMatrix(w)), want));
}

TEST(StackedMatrix, RowsShareWhatTheyAreCutFrom) {
  Tensors tensors;
  testing::add_quantized(tensors, "m", mx::random::normal({2, 8, 64}), 4);
  const auto checkpoint = checkpoint_of(tensors, testing::quantized_config(4));
  const auto all = load_stacked(*checkpoint, "m", {2, 8, 64});
  const mx::array x = mx::random::normal({3, 128});
  const auto whole = mx::reshape(head_matmul(x, all), {3, 2, 8});
  const auto part =
      mx::reshape(head_matmul(x, stacked_rows(all, 5, 8)), {3, 2, 3});
  EXPECT_TRUE(same_bits(part, mx::slice(whole, {0, 0, 5}, {3, 2, 8})));
}

TEST(StackedMatrix, WrongShapesAreNamed) {
  Tensors tensors = {{"m.weight", mx::zeros({2, 8, 64})},
                     {"flat.weight", mx::zeros({8, 64})},
                     {"e.0.up.weight", mx::zeros({8, 64})},
                     {"e.1.up.weight", mx::zeros({8, 64})}};
  const auto checkpoint = checkpoint_of(tensors);
  const StackedShape want{2, 8, 32};
  EXPECT_THAT(thrown_by([&] { load_stacked(*checkpoint, "m", want); }),
              AllOf(HasSubstr("'m.weight' is 2 x 8 x 64"),
                    HasSubstr("asks for 2 x 8 x 32")));
  EXPECT_THAT(thrown_by([&] { load_stacked(*checkpoint, "flat", want); }),
              HasSubstr("'flat.weight'"));
  EXPECT_THAT(
      thrown_by([&] { load_stacked_list(*checkpoint, "e", "up", want); }),
      HasSubstr("'e.0.up.weight' is 2 x 8 x 64"));
  EXPECT_THAT(thrown_by([&] {
                load_stacked_list(*checkpoint, "e", "up", {3, 8, 64});
              }),
              HasSubstr("'e.2.up.weight'"));
}

}  // namespace
}  // namespace reprise
