#include "layers/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace reprise {
namespace {

using nlohmann::json;

TEST(RopeFrequencies, DefaultIsPowersOfTheta) {
  const auto f = rope_frequencies({{"rope_theta", 10000.0}}, 8);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_FLOAT_EQ(f[0], 1.0f);
  EXPECT_FLOAT_EQ(f[1], 0.1f);
  EXPECT_FLOAT_EQ(f[3], 0.001f);
}

TEST(RopeFrequencies, ThetaIsReadWhereverItStands) {
  const json old_style = {{"rope_theta", 500.0}, {"rope_scaling", nullptr}};
  const json new_style = {
      {"rope_parameters", {{"rope_theta", 500.0}, {"rope_type", "default"}}}};
  EXPECT_EQ(rope_frequencies(old_style, 8), rope_frequencies(new_style, 8));
  EXPECT_NE(rope_frequencies(old_style, 8),
            rope_frequencies(json::object(), 8));
}

TEST(RopeFrequencies, LinearDividesAll) {
  const auto f = rope_frequencies(
      {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}, 4);
  EXPECT_FLOAT_EQ(f[0], 0.25f);
}

TEST(RopeFrequencies, Llama3KeepsShortAndStretchesLongWaves) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 128}};
  const json plain = {{"rope_theta", 500000.0}};
  json scaled = plain;
  scaled["rope_scaling"] = scaling;
  const auto was = rope_frequencies(plain, 64);
  const auto now = rope_frequencies(scaled, 64);
  EXPECT_EQ(now.front(), was.front());
  EXPECT_FLOAT_EQ(now.back(), was.back() / 8);
  int between = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    between += now[i] < was[i] && now[i] > was[i] / 8 * 1.001f;
  EXPECT_GT(between, 0);
}

TEST(RopeFrequencies, UnknownTypeIsNamed) {
  try {
    rope_frequencies({{"rope_scaling", {{"rope_type", "spiral"}}}}, 8);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("spiral"), std::string::npos);
  }
}

TEST(RopeFrequencies, ProportionalTurnsAPartOfTheHead) {
  const json settings = {{"rope_type", "proportional"},
                         {"rope_theta", 10000.0},
                         {"partial_rotary_factor", 0.25},
                         {"factor", 2.0}};
  const auto all = rope_frequencies({{"rope_theta", 10000.0}}, 16);
  const auto some = rope_frequencies({{"rope_parameters", settings}}, 16);
  ASSERT_EQ(some.size(), 8u);
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(some[i], i < 2 ? all[i] / 2 : 0.0f) << i;
  json wrong = settings;
  wrong["partial_rotary_factor"] = 1.5;
  EXPECT_THROW(rope_frequencies({{"rope_parameters", wrong}}, 16),
               std::runtime_error);
}

TEST(RopeFrequencies, AreOfATypeOfLayer) {
  const json config = {
      {"rope_parameters",
       {{"near", {{"rope_theta", 100.0}}},
        {"far", {{"rope_theta", 1e6}, {"rope_type", "proportional"}}},
        {"cut", {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}}}}}};
  EXPECT_EQ(rope_frequencies_of(config, "near", 8),
            rope_frequencies({{"rope_theta", 100.0}}, 8));
  EXPECT_EQ(rope_frequencies_of(config, "far", 8),
            rope_frequencies({{"rope_theta", 1e6}}, 8));
  EXPECT_THROW(rope_frequencies_of(config, "cut", 8), std::runtime_error);
  EXPECT_THROW(rope_frequencies_of(config, "other", 8), std::runtime_error);
  EXPECT_THROW(rope_frequencies_of(json::object(), "near", 8),
               std::runtime_error);
}

}  // namespace
}  // namespace reprise
