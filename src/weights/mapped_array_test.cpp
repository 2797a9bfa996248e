#include "weights/mapped_array.h"

#include <gtest/gtest.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using mlx::core::array;
using mlx::core::float32;
using testing::TempFolder;

constexpr int kCount = 40000;

// 64 bytes, then 0, 1, 2, ... as float32, shifted by `shift` bytes.
std::shared_ptr<const MappedFile> numbers(const TempFolder& folder,
                                          std::size_t shift = 0) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0f);
  std::string bytes(64 + shift, '\x55');
  bytes.append(reinterpret_cast<const char*>(values.data()),
               kCount * sizeof(float));
  return *MappedFile::open(folder.write("numbers", bytes));
}

bool on_cpu() {
  return mlx::core::default_device() == mlx::core::Device::cpu;
}

TEST(MappedArray, SharesTheMapping) {
  if (!on_cpu()) GTEST_SKIP() << "arrays are copies on this device";
  const TempFolder folder;
  const auto file = numbers(folder);
  array a = mapped_array(file, 64, {100, 400}, float32);
  EXPECT_EQ(static_cast<const void*>(a.data<float>()),
            static_cast<const void*>(file->bytes().data() + 64));
  EXPECT_TRUE(a.is_available());
  EXPECT_EQ(a.shape(), (mlx::core::Shape{100, 400}));
  EXPECT_EQ(mlx::core::sum(mlx::core::astype(a, mlx::core::int32)).item<int>(),
            799980000);
  EXPECT_EQ(
      mlx::core::slice(mlx::core::transpose(a), {7, 3}, {8, 4}).item<float>(),
      3 * 400 + 7);
}

TEST(MappedArray, CopiesWhatIsNotAligned) {
  const TempFolder folder;
  for (const std::size_t shift : {1, 2, 3}) {
    const auto file = numbers(folder, shift);
    array a = mapped_array(file, 64 + shift, {kCount}, float32);
    EXPECT_EQ(std::uintptr_t(a.data<float>()) % alignof(float), 0u);
    EXPECT_EQ(a.data<float>()[0], 0.0f);
    EXPECT_EQ(a.data<float>()[kCount - 1], kCount - 1);
  }
}

TEST(MappedArray, TheArrayKeepsTheFileOpen) {
  const TempFolder folder;
  auto file = numbers(folder);
  const std::weak_ptr<const MappedFile> watch = file;
  std::vector<array> held = {mapped_array(file, 64, {kCount}, float32)};
  file.reset();
  EXPECT_EQ(watch.expired(), !on_cpu());
  EXPECT_EQ(held[0].data<float>()[1000], 1000.0f);
  held.clear();
  EXPECT_TRUE(watch.expired());
}

// MLX writes results over inputs that nobody else holds. The pages are
// read-only: doing so here would end the process.
TEST(MappedArray, IsNeverWrittenInto) {
  const TempFolder folder;
  const auto file = numbers(folder);
  const std::string before(reinterpret_cast<const char*>(file->bytes().data()),
                           file->bytes().size());
  array a = mapped_array(file, 64, {kCount}, float32);
  EXPECT_EQ(a.is_donatable(), !on_cpu());
  array b = mlx::core::negative(std::move(a));
  mlx::core::eval(b);
  EXPECT_EQ(b.data<float>()[5], -5.0f);
  array c = mlx::core::add(mapped_array(file, 64, {kCount}, float32),
                           mapped_array(file, 64, {kCount}, float32));
  c = mlx::core::slice_update(mapped_array(file, 64, {kCount}, float32),
                              std::move(c), mlx::core::Shape{0},
                              mlx::core::Shape{kCount});
  mlx::core::eval(c);
  EXPECT_EQ(c.data<float>()[5], 10.0f);
  EXPECT_EQ(std::memcmp(before.data(), file->bytes().data(), before.size()), 0);
}

TEST(MappedArray, EmptyAndScalar) {
  const TempFolder folder;
  const auto file = numbers(folder);
  const array none = mapped_array(file, 64, {0, 7}, float32);
  EXPECT_EQ(none.size(), 0u);
  const array one = mapped_array(file, 64 + 4 * 9, {}, float32);
  EXPECT_EQ(one.item<float>(), 9.0f);
  // Up to the last byte.
  const array last = mapped_array(file, 64 + 4 * (kCount - 1), {1}, float32);
  EXPECT_EQ(last.data<float>()[0], kCount - 1);
}

TEST(MappedArrayDeathTest, BytesOutsideAreOurBug) {
  const TempFolder folder;
  const auto file = numbers(folder);
  EXPECT_DEATH(mapped_array(file, 68, {kCount}, float32), "CHECK|bytes at");
}

TEST(UnfilledArray, IsWritable) {
  array a = unfilled_array({2, 3}, mlx::core::uint32);
  for (int i = 0; i < 6; ++i) a.data<std::uint32_t>()[i] = i;
  EXPECT_EQ(mlx::core::sum(a).item<std::uint32_t>(), 15u);
}

}  // namespace
}  // namespace reprise
