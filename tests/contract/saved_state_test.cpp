// State that was saved goes on in another process as if nothing had been
// between: this program runs itself once more, with --resume.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "contract/contract_case.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kSeed = 17;

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), std::streamsize(bytes.size()));
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Three tokens one by one, then some at once: the logits of each.
std::vector<float> go_on(SequenceDriver& sequence) {
  const auto tokens = random_tokens(kSeed, kPromptTokens);
  const std::span<const TokenId> all(tokens);
  std::vector<float> logits;
  for (const std::size_t count : {1, 1, 1, 20}) {
    const auto row = sequence.feed(all.subspan(sequence.length(), count));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

// In the other process.
int resume(const ModelCase& model, const fs::path& folder) {
  const auto runner = runner_of(model);
  for (const int length : kCutLengths) {
    const auto loaded =
        from_bytes(read_file(folder / fmt::format("{}.state", length)),
                   state_pools(*runner), {.blocks = {9, 6, 7, 4}, .slot = 3});
    if (!loaded) {
      fmt::print(stderr, "{}\n", loaded.error().message);
      return 1;
    }
    SequenceDriver sequence(*runner, loaded->blocks, loaded->slot,
                            loaded->length);
    const auto logits = go_on(sequence);
    write_file(folder / fmt::format("{}.logits", length),
               {reinterpret_cast<const char*>(logits.data()),
                logits.size() * sizeof(float)});
  }
  return 0;
}

using SavedState = Contract;

TEST_P(SavedState, GoesOnInAnotherProcess) {
  const fs::path folder =
      fs::path(testing::TempDir()) /
      fmt::format("saved_state_{}_{}", GetParam().name, ::getpid());
  fs::create_directories(folder);
  const auto tokens = random_tokens(kSeed, kPromptTokens);
  std::vector<std::vector<float>> want;
  for (const int length : kCutLengths) {
    SequenceDriver sequence(*runner_);
    sequence.feed(std::span(tokens).first(length));
    write_file(folder / fmt::format("{}.state", length),
               to_bytes(pools(), state_of(sequence)));
    want.push_back(go_on(sequence));
  }
  const std::string self = fs::read_symlink("/proc/self/exe");
  const auto& [name, path, kv] = GetParam();
  ASSERT_EQ(std::system(fmt::format("'{}' --resume '{}' '{}' {} {}", self, path,
                                    folder.string(), kv.bits, kv.start)
                            .c_str()),
            0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string bytes =
        read_file(folder / fmt::format("{}.logits", kCutLengths[i]));
    std::vector<float> got(bytes.size() / sizeof(float));
    std::memcpy(got.data(), bytes.data(), got.size() * sizeof(float));
    EXPECT_TRUE(same_bits(got, want[i])) << kCutLengths[i] << " tokens";
  }
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(All, SavedState, testing::ValuesIn(fixture_cases()),
                         case_name);

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--resume")
    return reprise::resume(
        {.name = {},
         .path = argv[2],
         .kv = {.bits = std::atoi(argv[4]), .start = std::atoi(argv[5])}},
        argv[3]);
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  fmt::print("contract: {} comparisons, all by bits\n",
             reprise::compared_rows());
  return result;
}
