#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "kernels/cpu/matmul_task.h"
#include "kernels/plain.h"
#include "kernels/weight_testing.h"

namespace reprise::kernels {
namespace {

using namespace testing;

array multiply(const array& x, const Weights& w) {
  return w.dense ? kernels::matmul(x, *w.dense)
                 : kernels::matmul(x, *w.quantized);
}
array multiply_plain(const array& x, const Weights& w) {
  return w.dense ? plain::matmul(x, *w.dense) : plain::matmul(x, *w.quantized);
}
array some_rows(const array& x, int begin, int end) {
  return mx::slice(x, {begin, 0}, {end, x.shape(1)});
}

struct Exact {
  double value;
  double size;  // sum of |x| |w|: what rounding errors are relative to
};
std::vector<Exact> exact_product(const array& x, const Weights& w) {
  const auto a = to_floats(x), b = meaning(w);
  std::vector<Exact> out;
  const int columns = w.columns();
  for (int m = 0; m < x.shape(0); ++m)
    for (int n = 0; n < w.rows(); ++n) {
      Exact e{0, 0};
      for (int k = 0; k < columns; ++k) {
        const double p = double{a[m * columns + k]} * b[n * columns + k];
        e.value += p;
        e.size += std::abs(p);
      }
      out.push_back(e);
    }
  return out;
}

// A chain of n roundings in float32 is off by at most n u / (1 - n u) of the
// sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms,
// section 3.1). Ours has K/16 in a lane and 4 in the tree.
double chain_bound(int roundings) {
  const double nu = roundings * 0x1p-24;
  return nu / (1 - nu);
}

void expect_near_exact(const array& x, const Weights& w) {
  SCOPED_TRACE(w.name + ", x " + type_name(x.dtype()));
  const auto ours = to_floats(multiply(x, w));
  const auto exact = exact_product(x, w);
  ASSERT_EQ(ours.size(), exact.size());
  const double chain = chain_bound((w.columns() + 15) / 16 + 4);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double sum = chain * exact[i].size;
    const double bound =
        sum + rounding(x.dtype()) * (std::abs(exact[i].value) + sum) + 1e-30;
    if (x.dtype() == mx::float16 && std::abs(exact[i].value) > 65000) continue;
    ASSERT_NEAR(ours[i], exact[i].value, bound) << "element " << i;
  }
}

TEST(Matmul, IsWithinTheErrorBoundOfTheExactProduct) {
  RandomArrays random;
  for (const Weights& w : all_weights(random, 31, 256))
    for (auto type : kFloats)
      for (int rows : {1, 3, 9})
        expect_near_exact(random.floats(rows, 256, type), w);
}

TEST(Matmul, DenseColumnsNeedNotFillTheLanes) {
  RandomArrays random;
  for (auto type : kFloats)
    for (int columns : {1, 7, 15, 17, 100, 1030, 2063})
      for (int rows : {1, 2, 11})
        expect_near_exact(random.floats(rows, columns, type),
                          dense_weights(random, 29, columns, type));
}

// MLX's own product takes another order, K roundings long, and rounds scale
// times field before it adds the bias.
TEST(Matmul, AgreesWithThePlainComposition) {
  RandomArrays random;
  for (const Weights& w : all_weights(random, 64, 384)) {
    SCOPED_TRACE(w.name);
    const array x = random.floats(6, 384, mx::float32);
    const auto ours = to_floats(multiply(x, w));
    const auto plain = to_floats(multiply_plain(x, w));
    const auto exact = exact_product(x, w);
    ASSERT_EQ(ours.size(), plain.size());
    // Fields are up to 255, scales 0.1 and biases 0.5 in size: the factor
    // covers scale * field and bias of opposite signs.
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_NEAR(
          ours[i], plain[i],
          2 * chain_bound(384 + 4) * exact[i].size + chain_bound(2) * 384 * 26)
          << "element " << i;
  }
}

// ---- The same bits --------------------------------------------------------

// Rows 0..M-1 of x, for each M, must have the bits that each of these rows has
// alone.
void expect_same_rows(const array& x, const Weights& w,
                      const std::vector<std::byte>& alone,
                      const std::vector<int>& row_counts) {
  for (int rows : row_counts) {
    const auto together = bits_of(multiply(some_rows(x, 0, rows), w));
    ASSERT_EQ(std::memcmp(together.data(), alone.data(), together.size()), 0)
        << rows << " rows, " << w.name << " [" << w.rows() << ", "
        << w.columns() << "], x " << type_name(x.dtype()) << ", "
        << isa_name(cpu::current_isa()) << ", " << cpu::thread_count()
        << " threads";
  }
}

std::vector<std::byte> rows_alone(const array& x, const Weights& w) {
  std::vector<std::byte> all;
  for (int r = 0; r < x.shape(0); ++r) {
    const auto row = bits_of(multiply(some_rows(x, r, r + 1), w));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::vector<int> up_to(int count) {
  std::vector<int> all;
  for (int i = 1; i <= count; ++i) all.push_back(i);
  return all;
}

// The slow instruction set is asked for few row counts only.
void expect_row_invariance(const array& x, const Weights& w,
                           const std::vector<int>& row_counts) {
  const KernelSettings restore;
  cpu::set_thread_count(1);
  const auto alone = rows_alone(x, w);
  for (cpu::Isa isa : cpu::available_isas())
    for (int threads : {1, 2}) {
      const bool slow = isa == cpu::Isa::generic;
      if (slow && threads == 1) continue;
      cpu::set_isa(isa);
      cpu::set_thread_count(threads);
      expect_same_rows(x, w, alone, slow ? std::vector<int>{5} : row_counts);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(MatmulBits, DoNotDependOnRowsThreadsOrInstructionSet) {
  RandomArrays random;
  for (const Weights& w : all_weights(random, 103, 384))
    for (auto type : kFloats) {
      expect_row_invariance(random.floats(64, 384, type), w, up_to(64));
      if (HasFatalFailure()) return;
    }
}

struct Shape {
  int rows, columns;
};

void expect_row_invariance_of(const std::vector<Shape>& shapes,
                              const std::vector<int>& row_counts) {
  RandomArrays random;
  for (const Shape& s : shapes) {
    const array x = random.floats(64, s.columns, mx::float32);
    std::vector<Weights> all;
    all.push_back(
        quantized_weights(random, s.rows, s.columns, 4, 32, mx::float16));
    all.push_back(
        quantized_weights(random, s.rows, s.columns, 6, 64, mx::bfloat16));
    all.push_back(
        quantized_weights(random, s.rows, s.columns, 8, 64, mx::bfloat16));
    all.push_back(dense_weights(random, s.rows, s.columns, mx::bfloat16));
    for (const Weights& w : all) {
      expect_row_invariance(x, w, row_counts);
      if (::testing::Test::HasFatalFailure()) return;
    }
    const array half = random.floats(64, s.columns, mx::bfloat16);
    expect_row_invariance(half, all[0], {2, 4, 5, 63});
  }
}

TEST(MatmulBits, OfSmolLM2sLayers) {
  expect_row_invariance_of({{576, 576}, {192, 576}, {1536, 576}, {576, 1536}},
                           up_to(64));
}

TEST(MatmulBits, OfSmolLM2sHead) {
  RandomArrays random;
  const array x = random.floats(64, 576, mx::float32);
  // The file keeps the head in 8 bits, which doubles as the embedding.
  expect_row_invariance(
      x, quantized_weights(random, 49152, 576, 8, 32, mx::float16), up_to(64));
  expect_row_invariance(
      x, quantized_weights(random, 49152, 576, 4, 32, mx::float16),
      {2, 4, 5, 7, 32});
}

TEST(MatmulBits, OfTheLlamaFixture) {
  expect_row_invariance_of(
      {{256, 128}, {128, 128}, {128, 256}, {192, 128}, {128, 192}, {512, 128}},
      up_to(64));
}

// More rows than are widened at once, and more than a tile.
TEST(MatmulBits, OfManyRows) {
  RandomArrays random;
  const array x = random.floats(777, 128, mx::bfloat16);
  const Weights w = quantized_weights(random, 50, 128, 5, 32, mx::float32);
  expect_row_invariance(x, w, {129, 511, 513, 777});
}

// A router's logits stay float32 behind activations of 16 bits.
TEST(Matmul, RoundsToTheTypeThatIsAskedFor) {
  RandomArrays random;
  for (const Weights& w :
       {dense_weights(random, 31, 128, mx::bfloat16),
        quantized_weights(random, 31, 128, 4, 64, mx::bfloat16)})
    for (int rows : {1, 9})
      for (auto type : kFloats)
        for (auto out : kFloats) {
          const array x = random.floats(rows, 128, type);
          const array wide = mx::astype(x, mx::float32);
          const array got = w.dense ? kernels::matmul(x, *w.dense, out)
                                    : kernels::matmul(x, *w.quantized, out);
          ASSERT_EQ(got.dtype(), out);
          EXPECT_EQ(bits_of(got), bits_of(mx::astype(multiply(wide, w), out)));
        }
}

// ---- Edges ----------------------------------------------------------------

TEST(Matmul, NoRows) {
  RandomArrays random;
  for (const Weights& w : all_weights(random, 8, 128)) {
    array out = multiply(mx::zeros({0, 128}, mx::bfloat16), w);
    mx::eval(out);
    EXPECT_EQ(out.shape(), (mx::Shape{0, 8}));
    EXPECT_EQ(out.dtype(), mx::bfloat16);
  }
}

TEST(Matmul, TakesViews) {
  RandomArrays random;
  for (auto type : kFloats) {
    const array turned = random.floats(96, 6, type);
    const array x = mx::transpose(turned);
    const Weights w = dense_weights(random, 96, 20, type);
    const array w_turned = mx::transpose(*w.dense);
    EXPECT_EQ(
        bits_of(kernels::matmul(x, w_turned)),
        bits_of(kernels::matmul(mx::contiguous(x), mx::contiguous(w_turned))));
    const array every_other = mx::slice(turned, {0, 0}, {96, 6}, {2, 1});
    const Weights v = dense_weights(random, 9, 6, type);
    EXPECT_EQ(bits_of(multiply(every_other, v)),
              bits_of(multiply(mx::contiguous(every_other), v)));
  }
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  RandomArrays random;
  const array x = random.floats(2, 128, mx::float32);
  const array w = random.floats(3, 128, mx::float32);
  QuantizedMatrix q = random.quantized(3, 128, 4, 32, mx::float32);
  EXPECT_THROW(kernels::matmul(x, random.floats(3, 64, mx::float32)),
               std::invalid_argument);
  EXPECT_THROW(kernels::matmul(mx::astype(x, mx::int32), w),
               std::invalid_argument);
  EXPECT_THROW(kernels::matmul(mx::reshape(x, {256}), w),
               std::invalid_argument);
  EXPECT_THROW(kernels::matmul(x, mx::astype(w, mx::uint8)),
               std::invalid_argument);
  EXPECT_THROW(kernels::matmul(random.floats(2, 64, mx::float32), q),
               std::invalid_argument);
  for (int bits : {0, 1, 7, 9}) {
    QuantizedMatrix wrong = q;
    wrong.bits = bits;
    EXPECT_THROW(kernels::matmul(x, wrong), std::invalid_argument) << bits;
  }
  EXPECT_THROW(kernels::matmul(x, w, mx::int32), std::invalid_argument);
  QuantizedMatrix wrong = q;
  wrong.group_size = 64;
  EXPECT_THROW(kernels::matmul(x, wrong), std::invalid_argument);
  wrong = q;
  wrong.biases = mx::astype(q.biases, mx::float16);
  EXPECT_THROW(kernels::matmul(x, wrong), std::invalid_argument);
  wrong = q;
  wrong.words = mx::astype(q.words, mx::int32);
  EXPECT_THROW(kernels::matmul(x, wrong), std::invalid_argument);
}

// Memory whose last byte is followed by a page that must not be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size + page - 1) / page * page + page;
    start_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(start_ + mapped_ - page, page, PROT_NONE);
    data_ = start_ + mapped_ - page - size;
    std::memset(data_, 0x3c, size);
  }
  ~GuardedBytes() { munmap(start_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  char* data() const { return data_; }

 private:
  std::size_t mapped_;
  char* start_;
  char* data_;
};

// Weights are mapped files: the last one may end where its page does.
TEST(Matmul, ReadsNothingPastTheEnd) {
  const KernelSettings restore;
  constexpr int kWeightRows = 5, kColumns = 96, kRows = 6;
  for (cpu::Isa isa : cpu::available_isas())
    for (int bits : {0, 2, 3, 4, 5, 6, 8})
      for (int columns : {kColumns, kColumns - 9}) {
        if (bits != 0 && columns != kColumns) continue;
        cpu::set_isa(isa);
        const int element_bits = bits == 0 ? 16 : bits;
        cpu::MatmulTask task;
        task.type = task.out_type = task.w.type = cpu::ElementType::bfloat16;
        task.w.rows = kWeightRows;
        task.w.columns = columns;
        task.w.bits = bits;
        task.w.group_size = 32;
        task.w.row_bytes = columns * element_bits / 8;
        task.w.scale_row_bytes = task.w.bias_row_bytes = kColumns / 32 * 2;
        const GuardedBytes words(task.w.row_bytes * kWeightRows);
        const GuardedBytes scales(task.w.scale_row_bytes * kWeightRows);
        const GuardedBytes biases(task.w.scale_row_bytes * kWeightRows);
        const GuardedBytes x(columns * 2 * kRows);
        const GuardedBytes out(kWeightRows * 2 * kRows);
        task.w.data = words.data();
        task.w.scales = scales.data();
        task.w.biases = biases.data();
        task.x = x.data();
        task.x_row_bytes = columns * 2;
        task.out = out.data();
        for (int rows : {1, 2, 3, 4, kRows}) {
          task.rows = rows;
          cpu::matmul(task);
        }
        const GuardedBytes row(columns * 2);
        cpu::take_rows({task.w, std::vector<int>{kWeightRows - 1}.data(), 1,
                        cpu::ElementType::bfloat16, row.data()});
      }
}

}  // namespace
}  // namespace reprise::kernels
