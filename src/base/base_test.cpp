#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/process_memory.h"
#include "base/size.h"

namespace reprise {
namespace {

TEST(Size, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("4GiB"), std::size_t{4} << 30);
  EXPECT_EQ(*parse_size("1.5 mib"), 1536u * 1024);
  EXPECT_EQ(*parse_size("12kib"), 12288u);
}

TEST(Size, RefusesWithTheValue) {
  for (auto text :
       {"", "GiB", "-1", "4GB", "nan", "inf", "1e300", "4 GiB of"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_NE(size.error().message.find(text), std::string::npos);
  }
}

TEST(Size, Formats) {
  EXPECT_EQ(format_size(768), "768 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1023 << 10), "1023 KiB");
  EXPECT_EQ(format_size(std::size_t{3} << 29), "1.5 GiB");
}

TEST(Log, RefusesUnknownLevel) {
  EXPECT_FALSE(set_log_level("loud"));
  EXPECT_TRUE(set_log_level("info"));
}

TEST(MappedFile, MissingEmptyFolderAndReal) {
  const auto dir = std::filesystem::temp_directory_path();
  EXPECT_EQ(
      MappedFile::open((dir / "reprise-no-such-file").string()).error().kind,
      ErrorKind::not_found);
  EXPECT_EQ(MappedFile::open(dir.string()).error().kind, ErrorKind::invalid);
  const auto path = (dir / "reprise-mapped-file-test").string();
  std::ofstream(path).close();
  EXPECT_EQ(MappedFile::open(path).error().kind, ErrorKind::corrupt);
  std::ofstream(path) << "abc";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->bytes().size(), 3u);
  (*file)->release(0, 3);
  EXPECT_EQ(static_cast<char>((*file)->bytes()[2]), 'c');
  std::filesystem::remove(path);
}

TEST(ProcessMemory, IsPlausible) {
  EXPECT_GT(resident_bytes(), std::size_t{100} << 10);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
  EXPECT_GT(available_bytes(), std::size_t{1} << 20);
}

TEST(CheckDeathTest, ShowsPlaceAndValues) {
  EXPECT_DEATH(CHECK(1 == 2, "{} blocks", 7), "1 == 2: 7 blocks");
}

}  // namespace
}  // namespace reprise
