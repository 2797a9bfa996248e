#include "layers/config.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace reprise {
namespace {

using nlohmann::json;

TEST(ModelConfig, ReadsNumbersAndDefaults) {
  const json config = {{"a", 3}, {"b", nullptr}, {"c", 0.5}, {"d", true}};
  EXPECT_EQ(positive_setting(config, "a"), 3);
  EXPECT_EQ(positive_setting(config, "b", 7), 7);
  EXPECT_EQ(number_setting(config, "c", 1), 0.5);
  EXPECT_EQ(number_setting(config, "missing", 1), 1);
  EXPECT_TRUE(flag_setting(config, "d", false));
}

TEST(ModelConfig, ErrorsShowKeyAndValue) {
  for (const json& bad : {json(-1), json(0), json("12"), json(1.5), json(1e18),
                          json(nullptr), json(std::int64_t{1} << 31)}) {
    try {
      positive_setting({{"hidden_size", bad}}, "hidden_size");
      FAIL() << bad;
    } catch (const std::runtime_error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("hidden_size"), std::string::npos);
    }
  }
  EXPECT_THROW(number_setting({{"x", "1"}}, "x", 0), std::runtime_error);
  EXPECT_THROW(number_setting({{"x", nullptr}}, "x"), std::runtime_error);
  EXPECT_THROW(flag_setting({{"x", 1}}, "x", false), std::runtime_error);
}

TEST(ModelConfig, WordsAreOfAListWhoseFirstIsTheDefault) {
  const std::vector<std::string> served = {"silu", "swish"};
  EXPECT_EQ(word_setting({{"act", "swish"}}, "act", served), "swish");
  EXPECT_EQ(word_setting({{"act", nullptr}}, "act", served), "silu");
  for (const json& bad : {json("gelu"), json(1)}) {
    try {
      word_setting({{"act", bad}}, "act", served);
      FAIL() << bad;
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "the configuration's \"act\" is " + bad.dump() +
                              "; it must be silu or swish");
    }
  }
}

TEST(ModelConfig, CountsMayBeZero) {
  EXPECT_EQ(count_setting({{"n", 0}}, "n", 5), 0);
  EXPECT_EQ(count_setting({{"n", 3}}, "n", 0), 3);
  EXPECT_EQ(count_setting({{"n", nullptr}}, "n", 0), 0);
  EXPECT_EQ(count_setting(json::object(), "n", 5), 5);
  EXPECT_THROW(count_setting({{"n", -1}}, "n", 0), std::runtime_error);
  EXPECT_THROW(count_setting({{"n", "0"}}, "n", 0), std::runtime_error);
}

TEST(ModelConfig, ListsOfWordsAreOfTheirLength) {
  const std::vector<std::string> served = {"near", "far"};
  const json config = {{"types", {"far", "near"}}};
  EXPECT_EQ(word_list_setting(config, "types", served, 2),
            (std::vector<std::string>{"far", "near"}));
  EXPECT_TRUE(word_list_setting(config, "others", served, 2).empty());
  EXPECT_THROW(word_list_setting(config, "types", served, 3),
               std::runtime_error);
  EXPECT_THROW(word_list_setting(config, "types", {"near"}, 2),
               std::runtime_error);
  EXPECT_THROW(word_list_setting({{"types", "far"}}, "types", served, 1),
               std::runtime_error);
}

TEST(ModelConfig, SettingsOfTextMayLieDeeper) {
  const json config = {{"a", 1}, {"text_config", {{"a", 2}}}};
  EXPECT_EQ(text_settings(config)["a"], 2);
  EXPECT_EQ(text_settings(config["text_config"])["a"], 2);
  EXPECT_THROW(text_settings({{"text_config", 3}}), std::runtime_error);
}

}  // namespace
}  // namespace reprise
