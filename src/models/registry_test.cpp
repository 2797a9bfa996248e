#include "models/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprise {
namespace {

TEST(ModelRegistry, FindsEveryFileInTheFolder) {
  const auto types = model_types();
  EXPECT_FALSE(types.empty());
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
}

}  // namespace
}  // namespace reprise
