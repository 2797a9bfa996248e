#include "weights/safetensors_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;
using testing::raw;
using testing::safetensors_bytes;
using testing::TempFolder;

const char* const kHeader =
    R"({"__metadata__": {"format": "pt"},)"
    R"( "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
    R"( "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},)"
    R"( "none": {"dtype": "I64", "shape": [0, 5], "data_offsets": [32, 32]},)"
    R"( "one": {"dtype": "U8", "shape": [], "data_offsets": [32, 33]}})";

class SafetensorsFileTest : public ::testing::Test {
 protected:
  void expect_error(const std::string& bytes, ErrorKind kind,
                    const std::string& text) {
    const auto file =
        SafetensorsFile::open(folder_.write("x.safetensors", bytes));
    ASSERT_FALSE(file) << bytes;
    EXPECT_EQ(file.error().kind, kind) << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(text));
    EXPECT_THAT(file.error().message, HasSubstr("x.safetensors"));
  }
  // A file whose only tensor is "t", of 16 bytes of data.
  void expect_entry_error(const std::string& entry, ErrorKind kind,
                          const std::string& text) {
    expect_error(
        safetensors_bytes(R"({"t": )" + entry + "}", std::string(16, '\0')),
        kind, text);
  }

  TempFolder folder_;
};

TEST_F(SafetensorsFileTest, PlacesTensors) {
  const auto file = SafetensorsFile::open(folder_.write(
      "x.safetensors", safetensors_bytes(kHeader, std::string(33, '\0'))));
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 4u);
  const std::size_t data = 8 + std::string(kHeader).size();
  const SafetensorsTensor& a = file->tensors().at("a");
  EXPECT_EQ(a.dtype, SafetensorsType::f32);
  EXPECT_THAT(a.shape, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(a.offset, data);
  EXPECT_EQ(a.bytes, 24u);
  const SafetensorsTensor& b = file->tensors().at("b");
  EXPECT_EQ(b.dtype, SafetensorsType::bf16);
  EXPECT_EQ(b.offset, data + 24);
  EXPECT_EQ(file->tensors().at("none").bytes, 0u);
  EXPECT_EQ(file->tensors().at("one").bytes, 1u);
}

TEST_F(SafetensorsFileTest, RefusesEveryTruncation) {
  const std::string bytes = safetensors_bytes(kHeader, std::string(33, '\0'));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_error(bytes.substr(0, size), ErrorKind::corrupt, "x.safetensors");
}

TEST_F(SafetensorsFileTest, RefusesALyingHeaderLength) {
  for (const std::uint64_t length :
       {std::uint64_t{17}, std::uint64_t{100'000'001}, ~std::uint64_t{0},
        ~std::uint64_t{7}, std::uint64_t{1} << 63})
    expect_error(raw(length) + "{}              ", ErrorKind::corrupt,
                 std::to_string(length));
}

TEST_F(SafetensorsFileTest, RefusesAHeaderThatIsNotJson) {
  expect_error(safetensors_bytes("{\"t\": ", ""), ErrorKind::corrupt,
               "not JSON");
  expect_error(safetensors_bytes("{\"\xff\xfe\": 1}", ""), ErrorKind::corrupt,
               "not JSON");
  expect_error(safetensors_bytes("[1, 2]", ""), ErrorKind::corrupt, "[1,2]");
  expect_error(safetensors_bytes(std::string(200000, '['), ""),
               ErrorKind::corrupt, "not JSON");
  expect_error(
      safetensors_bytes(
          R"({"t": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},)"
          R"( "t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})",
          "x"),
      ErrorKind::corrupt, "'t' twice");
}

TEST_F(SafetensorsFileTest, RefusesLyingOffsets) {
  const auto entry = [](const std::string& offsets) {
    return R"({"dtype": "F32", "shape": [4], "data_offsets": )" + offsets + "}";
  };
  const auto refused = [&](const char* offsets) {
    expect_entry_error(entry(offsets), ErrorKind::corrupt, offsets);
  };
  refused("[4,20]");
  refused("[16,0]");
  refused("[1000,1016]");
  refused("[18446744073709551600,18446744073709551615]");
  refused("[0,18446744073709551615]");
  refused("[-16,0]");
  refused("[0,16.0]");
  refused("[0]");
  refused("null");
  expect_entry_error(R"({"dtype": "F32", "shape": [4]})", ErrorKind::corrupt,
                     "no pair of data_offsets");
  // 2^64 - 16 bytes, which is what 0 - 16 comes to in 64 bits.
  expect_entry_error(R"({"dtype": "U8", "shape": [16, 1073741823, 1073741825],)"
                     R"( "data_offsets": [16, 0]})",
                     ErrorKind::corrupt, "[16,0]");
  expect_error(
      safetensors_bytes(
          R"({"t": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
          R"( "u": {"dtype": "U8", "shape": [4], "data_offsets": [3, 7]}})",
          "12345678"),
      ErrorKind::corrupt, "'t' and 'u' overlap");
}

// Whoever prints or copies JSON goes down it by calls.
TEST_F(SafetensorsFileTest, RefusesNestingWithoutEnd) {
  const std::string deep =
      std::string(200'000, '[') + std::string(200'000, ']');
  expect_error(safetensors_bytes(R"({"t": )" + deep + "}", ""),
               ErrorKind::corrupt, "nested deeper than 64");
  expect_error(safetensors_bytes(deep, ""), ErrorKind::corrupt,
               "nested deeper than 64");
}

TEST_F(SafetensorsFileTest, RefusesSizesThatDoNotAgree) {
  const auto entry = [](const char* dtype, const char* shape) {
    return R"({"data_offsets": [0, 16], "dtype": ")" + std::string(dtype) +
           R"(", "shape": )" + shape + "}";
  };
  expect_entry_error(entry("F32", "[5]"), ErrorKind::corrupt, "takes 20 bytes");
  expect_entry_error(entry("F16", "[4]"), ErrorKind::corrupt, "takes 8 bytes");
  expect_entry_error(entry("F32", "[2147483647,2147483647,2147483647]"),
                     ErrorKind::corrupt, "2147483647");
  expect_entry_error(entry("F32", "[4294967296]"), ErrorKind::corrupt,
                     "4294967296");
  // 2^64 bytes, which is 0 in 64 bits.
  expect_entry_error(entry("U8", "[1073741824,1073741824,16]"),
                     ErrorKind::corrupt, "larger than any file");
  for (const char* size : {"-4", "4.0", "\"4\"", "null", "[4]"})
    expect_entry_error(entry("F32", fmt::format("[{}]", size).c_str()),
                       ErrorKind::corrupt, size);
  expect_entry_error(entry("F32", "4"), ErrorKind::corrupt, "no shape");
}

TEST_F(SafetensorsFileTest, RefusesUnknownDtypesByName) {
  expect_entry_error(
      R"({"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]})",
      ErrorKind::unsupported, "F8_E4M3");
  expect_entry_error(R"({"shape": [16], "data_offsets": [0, 16]})",
                     ErrorKind::corrupt, "no dtype");
  expect_entry_error("7", ErrorKind::corrupt, "not an object: 7");
}

TEST_F(SafetensorsFileTest, SurvivesEveryDamagedByte) {
  const std::string bytes = safetensors_bytes(kHeader, std::string(33, '\0'));
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const char value : {'\x00', '9', '"', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = value;
      refused +=
          !SafetensorsFile::open(folder_.write("x.safetensors", damaged));
    }
  EXPECT_GT(refused, 500);
}

TEST_F(SafetensorsFileTest, MissingFile) {
  const auto file = SafetensorsFile::open(folder_.path("none"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace reprise
