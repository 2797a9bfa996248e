#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using testing::fixture;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;

void expect_error(const std::string& path, ErrorKind kind,
                  const std::string& text) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_FALSE(checkpoint) << path;
  EXPECT_EQ(checkpoint.error().kind, kind) << checkpoint.error().message;
  EXPECT_THAT(checkpoint.error().message, HasSubstr(text));
  EXPECT_THAT(checkpoint.error().message, HasSubstr(path));
}

TEST(Checkpoint, OpensAFolder) {
  const auto checkpoint = Checkpoint::open(fixture("llama/hf"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE((*checkpoint)->contains("model.embed_tokens.weight"));
}

TEST(Checkpoint, OpensAGgufFileUnderAnyName) {
  const TempFolder folder;
  GgufWriter writer;
  writer.add_string("general.architecture", "tiny");
  writer.tensors = {{"output_norm.weight", {2}, 0, 0}};
  writer.data = std::string(8, '\0');
  for (const char* name : {"model.gguf", "0123abcd"}) {
    const auto checkpoint =
        Checkpoint::open(folder.write(name, writer.bytes()));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_TRUE((*checkpoint)->contains("model.norm.weight"));
    EXPECT_EQ((*checkpoint)->weight_bytes(), 8u);
  }
}

TEST(Checkpoint, RefusesWhatIsNotAModel) {
  const TempFolder folder;
  expect_error(folder.path("none"), ErrorKind::not_found, "no model at");
  expect_error("", ErrorKind::not_found, "no model at");
  expect_error("/dev/null", ErrorKind::not_found, "no model at");
  expect_error(folder.path(), ErrorKind::not_found, "config.json");
  expect_error(folder.write("empty.gguf", ""), ErrorKind::corrupt, "is empty");
  expect_error(folder.write("x.gguf", "PK\x03\x04 and more, twenty bytes"),
               ErrorKind::corrupt, "not a GGUF file");
  expect_error(folder.write("model.safetensors", "1"), ErrorKind::invalid,
               "give the folder");
}

}  // namespace
}  // namespace reprise
