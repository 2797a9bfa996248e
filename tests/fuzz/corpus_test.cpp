// Every file of a fuzzer's corpus, as an ordinary test: what was found once
// stays fixed. The fuzzer is the other source of this program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace reprise {
namespace {

namespace fs = std::filesystem;

int feed(const std::string& bytes) {
  return LLVMFuzzerTestOneInput(
      reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

TEST(Corpus, EveryInputIsSurvived) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(REPRISE_CORPUS))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 3u) << "in " << REPRISE_CORPUS;
  for (const fs::path& path : files) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(feed(bytes), 0);
    // Cut anywhere it is hostile as well.
    for (std::size_t n = 1; n <= 32; ++n)
      EXPECT_EQ(feed(bytes.substr(0, bytes.size() * n / 33)), 0);
  }
}

}  // namespace
}  // namespace reprise
