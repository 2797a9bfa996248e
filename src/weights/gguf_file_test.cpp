#include "weights/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using testing::gguf_string;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::raw;
using testing::TempFolder;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;

// Every kind of value, and two tensors.
GgufWriter small_file() {
  GgufWriter writer;
  writer.add("u8", 0, raw(std::uint8_t{200}))
      .add("i8", 1, raw(std::int8_t{-3}))
      .add("u16", 2, raw(std::uint16_t{60000}))
      .add("i16", 3, raw(std::int16_t{-300}))
      .add_uint32("u32", 4000000000u)
      .add("i32", 5, raw(std::int32_t{-70000}))
      .add_float("f32", 1e-5f)
      .add("yes", 7, raw(std::uint8_t{1}))
      .add_string("text", "h\xc3\xa9llo")
      .add("u64", 10, raw(~std::uint64_t{0}))
      .add("i64", 11, raw(std::int64_t{-5}))
      .add("f64", 12, raw(0.1))
      .add_array("words", 8, 3,
                 gguf_string("a") + gguf_string("") + gguf_string("bc"))
      .add_array("types", 5, 2, raw(std::int32_t{-1}) + raw(std::int32_t{6}))
      .add_array("flags", 7, 2, std::string("\x01\x00", 2))
      .add_array("floats", 6, 1, raw(0.5f))
      .add_array("none", 4, 0, "");
  writer.tensors = {{"a", {3, 2}, 0, 0}, {"b", {32}, 8, 32}};
  writer.data = std::string(32 + 34, '\x7f');
  return writer;
}

class GgufFileTest : public ::testing::Test {
 protected:
  Error error_of(const std::string& bytes) {
    const auto file = GgufFile::open(folder_.write("x.gguf", bytes));
    if (file) {
      ADD_FAILURE() << "opened";
      return {};
    }
    EXPECT_THAT(file.error().message, HasSubstr("x.gguf"));
    return file.error();
  }
  void expect_error(const GgufWriter& writer, ErrorKind kind,
                    const std::string& text) {
    const Error error = error_of(writer.bytes());
    EXPECT_EQ(error.kind, kind) << error.message;
    EXPECT_THAT(error.message, HasSubstr(text));
  }

  TempFolder folder_;
};

TEST_F(GgufFileTest, ReadsEveryKindOfValue) {
  const auto file =
      GgufFile::open(folder_.write("x.gguf", small_file().bytes()));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->integer("u8"), 200);
  EXPECT_EQ(file->integer("i8"), -3);
  EXPECT_EQ(file->integer("u16"), 60000);
  EXPECT_EQ(file->integer("i16"), -300);
  EXPECT_EQ(file->integer("u32"), 4000000000);
  EXPECT_EQ(file->integer("i32"), -70000);
  EXPECT_EQ(file->integer("i64"), -5);
  EXPECT_EQ(file->integer("u64"), std::nullopt);  // does not fit
  EXPECT_EQ(std::get<std::uint64_t>(*file->find("u64")), ~std::uint64_t{0});
  EXPECT_EQ(file->number("f32"), double{1e-5f});
  EXPECT_EQ(file->number("f64"), 0.1);
  EXPECT_EQ(file->number("i16"), -300.0);
  EXPECT_EQ(file->boolean("yes"), true);
  EXPECT_EQ(*file->string("text"), "h\xc3\xa9llo");
  EXPECT_THAT(*file->strings("words"), ::testing::ElementsAre("a", "", "bc"));
  EXPECT_THAT(*file->integers("types"), ::testing::ElementsAre(-1, 6));
  EXPECT_THAT(*file->integers("none"), ::testing::IsEmpty());
  EXPECT_EQ(
      std::get<std::vector<bool>>(std::get<GgufArray>(*file->find("flags"))),
      (std::vector<bool>{true, false}));
  EXPECT_EQ(
      std::get<std::vector<double>>(std::get<GgufArray>(*file->find("floats"))),
      std::vector<double>{0.5});
  // Another kind, or nothing there.
  EXPECT_EQ(file->string("u8"), nullptr);
  EXPECT_EQ(file->strings("types"), nullptr);
  EXPECT_EQ(file->integer("text"), std::nullopt);
  EXPECT_EQ(file->boolean("u8"), std::nullopt);
  EXPECT_EQ(file->find("nothing"), nullptr);
}

TEST_F(GgufFileTest, PlacesTensors) {
  const GgufWriter writer = small_file();
  const auto file = GgufFile::open(folder_.write("x.gguf", writer.bytes()));
  ASSERT_TRUE(file) << file.error().message;
  const std::size_t data = (writer.header_bytes() + 31) / 32 * 32;
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_THAT(a.shape, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(a.bytes, 24u);
  EXPECT_EQ(a.offset, data);
  const GgufTensor& b = file->tensors()[1];
  EXPECT_EQ(b.type, GgufType::q8_0);
  EXPECT_EQ(b.bytes, 34u);
  EXPECT_EQ(b.offset, data + 32);
}

TEST_F(GgufFileTest, HonoursTheAlignmentKey) {
  GgufWriter writer;
  writer.add_uint32("general.alignment", 256);
  writer.alignment = 256;
  writer.tensors = {{"a", {2}, 0, 256}};
  writer.data = std::string(256 + 8, '\1');
  const auto file = GgufFile::open(folder_.write("x.gguf", writer.bytes()));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].offset, 512u);
}

// Cut anywhere, the file is refused with a reason, and nothing is read behind
// its end (the sanitizer build watches).
TEST_F(GgufFileTest, RefusesEveryTruncation) {
  const std::string bytes = small_file().bytes();
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const auto file =
        GgufFile::open(folder_.write("x.gguf", bytes.substr(0, size)));
    ASSERT_FALSE(file) << "cut to " << size << " of " << bytes.size();
    ASSERT_EQ(file.error().kind, ErrorKind::corrupt) << file.error().message;
    ASSERT_THAT(file.error().message, HasSubstr("x.gguf"));
  }
  EXPECT_EQ(error_of("").kind, ErrorKind::corrupt);
}

// Any single byte changed: refused or read, never a crash.
TEST_F(GgufFileTest, SurvivesEveryDamagedByte) {
  const std::string bytes = small_file().bytes();
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = value;
      refused += !GgufFile::open(folder_.write("x.gguf", damaged));
    }
  EXPECT_GT(refused, 300);
}

TEST_F(GgufFileTest, RefusesAForeignFile) {
  GgufWriter writer = small_file();
  writer.magic = "GGJT";
  expect_error(writer, ErrorKind::corrupt, "GGJT");
  writer.magic = std::string("\x80\x02}q", 4);
  expect_error(writer, ErrorKind::corrupt, "\\x80\\x02}q");
}

TEST_F(GgufFileTest, RefusesAnotherVersion) {
  for (const std::uint32_t version : {0u, 1u, 4u, 77u}) {
    GgufWriter writer = small_file();
    writer.version = version;
    expect_error(writer, ErrorKind::unsupported,
                 "version " + std::to_string(version));
  }
  GgufWriter writer = small_file();
  writer.version = 0x03000000;
  expect_error(writer, ErrorKind::unsupported, "big-endian");
  writer.version = 2;
  EXPECT_TRUE(GgufFile::open(folder_.write("x.gguf", writer.bytes())));
}

TEST_F(GgufFileTest, RefusesLyingCounts) {
  const GgufWriter writer = small_file();
  const std::string huge = std::to_string(kHuge);
  EXPECT_THAT(error_of(writer.bytes(kHuge, 17)).message,
              AllOf(HasSubstr(huge), HasSubstr("tensors")));
  EXPECT_THAT(error_of(writer.bytes(2, kHuge)).message,
              AllOf(HasSubstr(huge), HasSubstr("metadata keys")));
  EXPECT_EQ(error_of(writer.bytes(3, 17)).kind, ErrorKind::corrupt);
  EXPECT_EQ(error_of(writer.bytes(2, 18)).kind, ErrorKind::corrupt);
}

TEST_F(GgufFileTest, RefusesLyingLengths) {
  const std::uint64_t length = std::uint64_t{1} << 63;
  GgufWriter value = small_file();
  value.add("long", 8, raw(length));
  expect_error(value, ErrorKind::corrupt, std::to_string(length));
  GgufWriter array = small_file();
  array.add_array("many", 5, kHuge, "");
  expect_error(array, ErrorKind::corrupt, std::to_string(kHuge));
  GgufWriter words = small_file();
  words.add_array("words2", 8, 1000, "");
  expect_error(words, ErrorKind::corrupt, "1000 elements");
  GgufWriter kind = small_file();
  kind.add("odd", 13, "");
  expect_error(kind, ErrorKind::corrupt, "unknown value type 13");
  GgufWriter element = small_file();
  element.add_array("odd", 99, 1, "");
  expect_error(element, ErrorKind::corrupt, "unknown value type 99");
  GgufWriter nested = small_file();
  nested.add_array("odd", 9, 1, "");
  expect_error(nested, ErrorKind::unsupported, "array of arrays");
}

TEST_F(GgufFileTest, RefusesLyingShapes) {
  const auto with = [](std::vector<std::uint64_t> dims, std::uint32_t type) {
    GgufWriter writer = small_file();
    writer.tensors = {{"t", std::move(dims), type, 0}};
    return writer;
  };
  const std::uint64_t most = 0x7fffffff;
  expect_error(with({kHuge}, 0), ErrorKind::corrupt, std::to_string(kHuge));
  expect_error(with({most, most, most, most}, 0), ErrorKind::corrupt,
               "2147483647");
  // 2^62 elements of 4 bytes: the product of the bytes overflows to 0.
  expect_error(with({1 << 30, 1 << 30, 4}, 0), ErrorKind::corrupt,
               "larger than the file");
  expect_error(with({4, 0}, 0), ErrorKind::corrupt, "has 0 as its dimension 1");
  expect_error(with({}, 0), ErrorKind::corrupt, "0 dimensions");
  expect_error(with({1, 1, 1, 1, 1}, 0), ErrorKind::corrupt, "5 dimensions");
  expect_error(with({33}, 8), ErrorKind::corrupt, "not a multiple of 32");
  expect_error(with({32}, 77), ErrorKind::unsupported, "type number 77");
}

TEST_F(GgufFileTest, RefusesLyingOffsets) {
  GgufWriter writer = small_file();
  writer.tensors[1].offset = 64;  // 34 bytes there, and 66 in all
  expect_error(writer, ErrorKind::corrupt, "ends behind");
  writer.tensors[1].offset = ~std::uint64_t{31};
  expect_error(writer, ErrorKind::corrupt, "ends behind");
  writer.tensors[1].offset = 33;
  expect_error(writer, ErrorKind::corrupt, "multiple of the alignment 32");
  writer.tensors[1].offset = 0;
  expect_error(writer, ErrorKind::corrupt, "'a' and 'b' overlap");
}

TEST_F(GgufFileTest, RefusesDuplicates) {
  GgufWriter keys = small_file();
  keys.add_uint32("u32", 1);
  expect_error(keys, ErrorKind::corrupt, "key 'u32' twice");
  GgufWriter tensors = small_file();
  tensors.tensors[1].name = "a";
  expect_error(tensors, ErrorKind::corrupt, "tensor 'a' twice");
}

TEST_F(GgufFileTest, RefusesABadAlignment) {
  for (const std::uint32_t alignment : {0u, 48u, 1u << 31}) {
    GgufWriter writer = small_file();
    writer.add_uint32("general.alignment", alignment);
    expect_error(writer, ErrorKind::corrupt,
                 "general.alignment " + std::to_string(alignment));
  }
  GgufWriter writer = small_file();
  writer.add_string("general.alignment", "32");
  expect_error(writer, ErrorKind::corrupt, "another kind");
}

TEST_F(GgufFileTest, MissingFile) {
  const auto file = GgufFile::open(folder_.path("none.gguf"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::not_found);
  EXPECT_THAT(file.error().message, HasSubstr("none.gguf"));
}

}  // namespace
}  // namespace reprise
