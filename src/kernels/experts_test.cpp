#include "kernels/experts.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/plain.h"
#include "kernels/test_support.h"
#include "kernels/weight_testing.h"

namespace reprise::kernels {
namespace {

using namespace testing;
using test_support::bytes_of;
using test_support::make_array;
using test_support::random_floats;
using test_support::row_bytes_of;
using test_support::values_of;

constexpr int kExperts = 7;
constexpr int kRows = 40;  // of a matrix; no multiple of a tile

// Matrices of experts, and the same stacked on each other.
struct Experts {
  Weights stacked;

  int columns() const { return stacked.columns(); }

  array multiply(const array& x, const array& ids) const {
    return stacked.dense ? expert_matmul(x, dense(), ids)
                         : expert_matmul(x, quantized(), ids);
  }
  array multiply_plain(const array& x, const array& ids) const {
    return stacked.dense ? plain::expert_matmul(x, dense(), ids)
                         : plain::expert_matmul(x, quantized(), ids);
  }
  // By the matrix of one expert alone.
  array multiply_by(const array& x, int expert) const {
    const auto part = [&](const array& a) {
      return mx::slice(a, {expert * kRows, 0},
                       {(expert + 1) * kRows, a.shape(1)});
    };
    if (stacked.dense) return kernels::matmul(x, part(*stacked.dense));
    const QuantizedMatrix& q = *stacked.quantized;
    return kernels::matmul(
        x, QuantizedMatrix{part(q.words), part(q.scales), part(q.biases),
                           q.group_size, q.bits});
  }

 private:
  static array split(const array& a) {
    return mx::reshape(a, {kExperts, kRows, a.shape(1)});
  }
  array dense() const { return split(*stacked.dense); }
  QuantizedExperts quantized() const {
    const QuantizedMatrix& q = *stacked.quantized;
    return {split(q.words), split(q.scales), split(q.biases), q.group_size,
            q.bits};
  }
};

std::vector<Experts> all_experts(RandomArrays& random, int columns) {
  std::vector<Experts> all;
  for (Weights& w : all_weights(random, kExperts * kRows, columns))
    all.push_back({std::move(w)});
  return all;
}

array id_array(const std::vector<std::int32_t>& ids, int tokens) {
  return array(ids.begin(), {tokens, static_cast<int>(ids.size()) / tokens},
               mx::int32);
}

// Expert 0 for every other token: so many rows that they go together.
std::vector<std::int32_t> random_ids(int tokens, int choices) {
  std::mt19937 random(3);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < tokens; ++i)
    for (int j = 0; j < choices; ++j)
      ids.push_back(j == 0 && i % 2 == 0
                        ? 0
                        : static_cast<std::int32_t>(random() % kExperts));
  return ids;
}

// What each slot must have: its row by its expert's matrix, alone.
std::vector<std::uint8_t> slot_by_slot(const Experts& w, const array& x,
                                       const std::vector<std::int32_t>& ids) {
  const auto slots = static_cast<int>(ids.size());
  const int slots_per_row = slots / x.shape(0);
  std::vector<std::uint8_t> all;
  for (int slot = 0; slot < slots; ++slot) {
    const int row = slot / slots_per_row;
    const auto one = bytes_of(w.multiply_by(
        mx::slice(x, {row, 0}, {row + 1, x.shape(1)}), ids[slot]));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST(ExpertMatmul, HasTheBitsOfMatmulRowByRow) {
  const KernelSettings restore;
  constexpr int kTokens = 19, kChoices = 3, kColumns = 256;
  RandomArrays random;
  const auto ids = random_ids(kTokens, kChoices);
  const array id_rows = id_array(ids, kTokens);
  for (const Experts& w : all_experts(random, kColumns))
    for (auto type : kFloats)
      for (int x_rows : {kTokens, kTokens * kChoices}) {
        const array x = random.floats(x_rows, kColumns, type);
        cpu::set_isa(cpu::available_isas().back());
        const auto want = slot_by_slot(w, x, ids);
        for (cpu::Isa isa : cpu::available_isas())
          for (int threads : {1, 2}) {
            cpu::set_isa(isa);
            cpu::set_thread_count(threads);
            ASSERT_TRUE(bytes_of(w.multiply(x, id_rows)) == want)
                << w.stacked.name << ", x " << type_name(type) << " of "
                << x_rows << " rows, " << isa_name(isa) << ", " << threads;
          }
      }
}

TEST(ExpertMatmul, DoesNotDependOnTheCompany) {
  RandomArrays random;
  constexpr int kTokens = 40, kChoices = 2;
  const Experts w = {
      quantized_weights(random, kExperts * kRows, 128, 6, 64, mx::bfloat16)};
  const array x = random.floats(kTokens, 128, mx::bfloat16);
  const array ids = id_array(random_ids(kTokens, kChoices), kTokens);
  const array all = w.multiply(x, ids);
  for (int begin : {0, 1, 17})
    for (int end : {begin + 1, begin + 5, kTokens}) {
      const auto some = w.multiply(mx::slice(x, {begin, 0}, {end, 128}),
                                   mx::slice(ids, {begin, 0}, {end, kChoices}));
      EXPECT_EQ(bytes_of(some),
                row_bytes_of(all, begin * kChoices, (end - begin) * kChoices));
    }
}

// More than are gathered at once, and more than a tile for one expert.
TEST(ExpertMatmul, OfManySlots) {
  RandomArrays random;
  constexpr int kTokens = 1300, kChoices = 2;
  const Experts w = {dense_weights(random, kExperts * kRows, 33, mx::float16)};
  const array x = random.floats(kTokens, 33, mx::float32);
  const auto ids = random_ids(kTokens, kChoices);
  const array all = w.multiply(x, id_array(ids, kTokens));
  for (int e = 0; e < kExperts; ++e) {
    const array by_e = w.multiply_by(x, e);
    for (int slot = 0; slot < kTokens * kChoices; slot += 7)
      if (ids[slot] == e) {
        ASSERT_EQ(row_bytes_of(all, slot, 1),
                  row_bytes_of(by_e, slot / kChoices, 1))
            << slot;
      }
  }
}

TEST(ExpertMatmul, AgreesWithThePlainComposition) {
  RandomArrays random;
  constexpr int kTokens = 6, kChoices = 2, kColumns = 128;
  const array ids = id_array(random_ids(kTokens, kChoices), kTokens);
  for (const Experts& w : all_experts(random, kColumns))
    for (int x_rows : {kTokens, kTokens * kChoices}) {
      const array x = random.floats(x_rows, kColumns, mx::float32);
      const auto ours = to_floats(w.multiply(x, ids));
      const auto plain = to_floats(w.multiply_plain(x, ids));
      ASSERT_EQ(ours.size(), plain.size());
      // Of K products up to 4 * (255 * 0.4 + 2) in size, K + 4 roundings.
      const double size = w.stacked.dense ? 16.0 : 416.0;
      for (std::size_t i = 0; i < ours.size(); ++i)
        ASSERT_NEAR(ours[i], plain[i],
                    2 * kColumns * size * (kColumns + 4) * 0x1p-24)
            << w.stacked.name;
    }
}

// Gate and up of each expert on one another, as some checkpoints have them.
TEST(ExpertMatmul, TakesPartsOfFusedMatrices) {
  RandomArrays random;
  const array fused =
      mx::reshape(random.floats(kExperts * 2 * kRows, 64, mx::bfloat16),
                  {kExperts, 2 * kRows, 64});
  const array up = mx::slice(fused, {0, kRows, 0}, {kExperts, 2 * kRows, 64});
  const array x = random.floats(5, 64, mx::float32);
  const array ids = id_array(random_ids(5, 2), 5);
  EXPECT_EQ(bytes_of(expert_matmul(x, up, ids)),
            bytes_of(expert_matmul(x, mx::contiguous(up), ids)));
  array turned = expert_matmul(
      x, mx::swapaxes(mx::contiguous(mx::swapaxes(up, 1, 2)), 1, 2), ids);
  EXPECT_THROW(mx::eval(turned), std::runtime_error);
}

TEST(ExpertMatmul, FailsForAnIdThatIsNoExpert) {
  RandomArrays random;
  const Experts w = {dense_weights(random, kExperts * kRows, 64, mx::float32)};
  const array x = random.floats(2, 64, mx::float32);
  for (int id : {-1, kExperts, 1 << 30}) {
    array out = w.multiply(x, id_array({0, 1, 2, id}, 2));
    try {
      mx::eval(out);
      ADD_FAILURE() << id;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(id)),
                std::string::npos)
          << e.what();
    }
  }
}

TEST(ExpertMatmul, OfNoTokens) {
  RandomArrays random;
  const Experts w = {dense_weights(random, kExperts * kRows, 64, mx::float32)};
  array out = w.multiply(mx::zeros({0, 64}), mx::zeros({0, 4}, mx::int32));
  mx::eval(out);
  EXPECT_EQ(out.shape(), (mx::Shape{0, kRows}));
}

TEST(ExpertMatmul, RefusesWhatDoesNotFit) {
  RandomArrays random;
  const array w = mx::reshape(random.floats(6, 64, mx::float32), {2, 3, 64});
  const array x = random.floats(4, 64, mx::float32);
  const array ids = id_array({0, 1, 0, 1}, 2);
  EXPECT_THROW(expert_matmul(x, mx::reshape(w, {6, 64}), ids),
               std::invalid_argument);
  EXPECT_THROW(expert_matmul(random.floats(3, 64, mx::float32), w, ids),
               std::invalid_argument);
  EXPECT_THROW(expert_matmul(random.floats(2, 63, mx::float32), w, ids),
               std::invalid_argument);
  EXPECT_THROW(expert_matmul(x, w, mx::astype(ids, mx::uint32)),
               std::invalid_argument);
  EXPECT_THROW(expert_matmul(x, w, mx::reshape(ids, {4})),
               std::invalid_argument);
  EXPECT_THROW(expert_sum(x, mx::zeros({3, 2})), std::invalid_argument);
  EXPECT_THROW(expert_sum(x, mx::zeros({2, 2}, mx::bfloat16)),
               std::invalid_argument);
}

TEST(ExpertSum, IsTheChainOverAscendingSlots) {
  constexpr int kTokens = 9, kChoices = 4, kDim = 37;
  for (auto type : kFloats) {
    const array y =
        make_array(random_floats(std::size_t{kTokens} * kChoices * kDim, 1),
                   {kTokens * kChoices, kDim}, type);
    const array weights = make_array(
        random_floats(std::size_t{kTokens} * kChoices, 2), {kTokens, kChoices});
    const auto rows = values_of(y), w = values_of(weights);
    std::vector<float> want;
    for (int i = 0; i < kTokens; ++i)
      for (int d = 0; d < kDim; ++d) {
        float total = 0;
        for (int j = 0; j < kChoices; ++j)
          total = std::fma(w[i * kChoices + j],
                           rows[(i * kChoices + j) * kDim + d], total);
        want.push_back(total);
      }
    const auto rounded = bytes_of(make_array(want, {kTokens, kDim}, type));
    test_support::with_every_isa(
        [&] { EXPECT_TRUE(bytes_of(expert_sum(y, weights)) == rounded); });
    const auto plain = values_of(plain::expert_sum(y, weights));
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(plain[i], want[i], 4 * (rounding(type) + 8 * 0x1p-24));
  }
}

}  // namespace
}  // namespace reprise::kernels
