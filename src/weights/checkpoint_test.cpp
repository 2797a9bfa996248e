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

TEST(Checkpoint, KnowsWhatNobodyAskedFor) {
  const auto opened = Checkpoint::open(fixture("llama/mlx-q4"));
  ASSERT_TRUE(opened) << opened.error().message;
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(checkpoint.unread(), checkpoint.names());
  checkpoint.tensor("model.norm.weight");
  checkpoint.quantized("lm_head");
  checkpoint.quantized("model.norm");  // is not quantized
  EXPECT_THROW(checkpoint.tensor("model.embed_tokens.weight"),
               std::runtime_error);
  const auto unread = checkpoint.unread();
  EXPECT_EQ(unread.size(), checkpoint.names().size() - 4);
  EXPECT_THAT(unread, ::testing::Contains("model.embed_tokens.weight"));
  for (const char* read : {"model.norm.weight", "lm_head.weight",
                           "lm_head.scales", "lm_head.biases"})
    EXPECT_THAT(unread, ::testing::Not(::testing::Contains(read)));
}

const TensorInfo* find(const std::vector<TensorInfo>& all,
                       const std::string& name) {
  for (const TensorInfo& info : all)
    if (info.name == name) return &info;
  return nullptr;
}

TEST(Checkpoint, DescribesTensorsWithoutReadingThem) {
  const auto plain = Checkpoint::open(fixture("llama/hf"));
  const auto packed = Checkpoint::open(fixture("llama/mlx-q4"));
  ASSERT_TRUE(plain && packed);
  std::int64_t parameters = 0, unpacked = 0;
  for (const TensorInfo& t : (*plain)->tensors()) parameters += t.parameters;
  for (const TensorInfo& t : (*packed)->tensors()) unpacked += t.parameters;
  EXPECT_EQ(parameters, 648'064);  // tests/fixtures/llama/golden.json
  EXPECT_EQ(unpacked, parameters);

  const auto all = (*packed)->tensors();
  const TensorInfo* head = find(all, "lm_head.weight");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->dtype, "uint32");
  EXPECT_EQ(head->shape, (std::vector<std::int32_t>{512, 16}));
  EXPECT_EQ(head->bytes, 512u * 16 * 4);
  EXPECT_EQ(head->quantization, (StoredQuantization{4, 64}));
  EXPECT_THAT(head->file, HasSubstr("mlx-q4/model.safetensors"));
  const TensorInfo* scales = find(all, "lm_head.scales");
  ASSERT_TRUE(scales);
  EXPECT_EQ(scales->dtype, "bfloat16");
  EXPECT_FALSE(scales->quantization);
  EXPECT_EQ(scales->parameters, 0);
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
