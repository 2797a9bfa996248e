#include "engine/inspect_model.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reprise {
namespace {

const std::string kFixtures = REPRISE_SOURCE_DIR "/tests/fixtures/";

TEST(InspectModel, TellsStateBytesByDtype) {
  const auto info = inspect_model(kFixtures + "llama/hf", "bfloat16");
  EXPECT_EQ(info.model_type, "llama");
  EXPECT_EQ(info.refusal, "");
  EXPECT_EQ(info.layers, 3);
  ASSERT_EQ(info.state.size(), 1u);
  const StateLayers& all = info.state[0];
  EXPECT_EQ(all.layers, (std::vector<int>{0, 1, 2}));
  ASSERT_EQ(all.families.size(), 2u);
  EXPECT_EQ(all.families[0].name, "keys");
  EXPECT_EQ(all.families[0].growth, "per token");
  EXPECT_EQ(all.families[0].dtype, "bfloat16");
  EXPECT_EQ(all.families[0].row_elements, 128);
  EXPECT_EQ(all.token_bytes, 3 * 2 * 128 * 2);
  EXPECT_EQ(all.snapshot_bytes, 0u);
  EXPECT_EQ(all.context_bytes, std::size_t{262144} * 3 * 2 * 128 * 2);
  EXPECT_TRUE(info.unread.empty());
  EXPECT_THROW(inspect_model(kFixtures + "llama/hf", "int8"),
               std::runtime_error);
}

TEST(InspectModel, WhatIsNoModelThrows) {
  EXPECT_THROW(inspect_model(kFixtures + "text"), std::runtime_error);
  EXPECT_THROW(inspect_model(kFixtures + "nowhere"), std::runtime_error);
}

}  // namespace
}  // namespace reprise
