#include "engine/mlx_device.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reprise {
namespace {

namespace mx = mlx::core;

TEST(MlxDevice, NamesOfFlags) {
  const auto cpu = mx::Device::DeviceType::cpu;
  EXPECT_EQ(choose_device("auto"), cpu);
  EXPECT_EQ(choose_dtype("auto", cpu), mx::float32);
  EXPECT_EQ(choose_dtype("bfloat16", cpu), mx::bfloat16);
  EXPECT_THROW(choose_device("gpu"), std::runtime_error);
  EXPECT_THROW(choose_device("tpu"), std::runtime_error);
  EXPECT_THROW(choose_dtype("int8", cpu), std::runtime_error);
}

}  // namespace
}  // namespace reprise
