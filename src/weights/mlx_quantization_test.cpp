#include "weights/mlx_quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<QuantizationSettings> of(const char* config, const char* module) {
  const auto all = MlxQuantization::from_config(json::parse(config));
  if (!all) return all.error();
  return all->of(module);
}

void expect_settings(const char* config, const char* module, int group_size,
                     int bits) {
  const auto settings = of(config, module);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->group_size, group_size);
  EXPECT_EQ(settings->bits, bits);
}

void expect_error(const char* config, const char* module, ErrorKind kind,
                  const char* text) {
  const auto settings = of(config, module);
  ASSERT_FALSE(settings) << config;
  EXPECT_EQ(settings.error().kind, kind) << settings.error().message;
  EXPECT_THAT(settings.error().message, HasSubstr(text));
}

TEST(MlxQuantization, OneForAll) {
  expect_settings(R"({"quantization": {"group_size": 32, "bits": 8}})", "a.b",
                  32, 8);
  expect_settings(
      R"({"quantization_config": {"group_size": 128, "bits": 3,
          "mode": "affine"}})",
      "a.b", 128, 3);
}

TEST(MlxQuantization, ExceptionsByModule) {
  const char* config =
      R"({"quantization": {"group_size": 64, "bits": 4,
          "model.layers.0.mlp": {"group_size": 32, "bits": 6}}})";
  expect_settings(config, "model.layers.0.mlp", 32, 6);
  expect_settings(config, "model.layers.1.mlp", 64, 4);
  expect_error(
      R"({"quantization": {"group_size": 64, "bits": 4, "head": false}})",
      "head", ErrorKind::corrupt, "module 'head' has scales");
}

TEST(MlxQuantization, OtherModes) {
  expect_error(
      R"({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}})",
      "a", ErrorKind::unsupported, "mxfp4");
  expect_error(
      R"({"quantization": {"group_size": 64, "bits": 4,
          "a": {"group_size": 32, "bits": 8, "mode": "mxfp8"}}})",
      "a", ErrorKind::unsupported, "mxfp8");
  expect_error(
      R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})", "a",
      ErrorKind::unsupported, "gptq");
}

TEST(MlxQuantization, WrongValues) {
  for (const char* bits : {"1", "7", "0", "-4", "4.0", "\"4\"", "1e300",
                           "18446744073709551615", "null", "[4]"}) {
    const std::string config =
        R"({"quantization": {"group_size": 64, "bits": )" + std::string(bits) +
        "}}";
    expect_error(config.c_str(), "a", ErrorKind::invalid, "bits");
  }
  expect_error(R"({"quantization": {"group_size": 16, "bits": 4}})", "a",
               ErrorKind::invalid, "16");
  expect_error(R"({"quantization": {"bits": 4}})", "a", ErrorKind::invalid,
               "(none)");
  expect_error(R"({"quantization": 4})", "a", ErrorKind::invalid,
               "must be an object");
  expect_error("{}", "a", ErrorKind::corrupt, "no 'quantization'");
}

}  // namespace
}  // namespace reprise
