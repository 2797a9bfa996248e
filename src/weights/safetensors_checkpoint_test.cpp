#include "weights/safetensors_checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/io.h>
#include <mlx/ops.h>

#include <filesystem>

#include "weights/testing_files.h"

namespace reprise {
namespace {

using mlx::core::array;
using ::testing::AllOf;
using testing::fixture;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::safetensors_bytes;
using testing::TempFolder;

bool same(const array& a, const array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         mlx::core::array_equal(a, b).item<bool>();
}

// Every tensor, against MLX's own reader.
void expect_as_mlx_reads(const std::string& folder) {
  const auto checkpoint = open_safetensors_checkpoint(folder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto theirs =
      mlx::core::load_safetensors(folder + "/model.safetensors").first;
  EXPECT_EQ((*checkpoint)->names().size(), theirs.size());
  std::size_t bytes = 0;
  for (const auto& [name, want] : theirs) {
    ASSERT_TRUE((*checkpoint)->contains(name)) << name;
    bytes += want.nbytes();
    const std::size_t dot = name.rfind('.');
    const std::string module = name.substr(0, dot);
    if (name.substr(dot) != ".weight" || !theirs.contains(module + ".scales")) {
      EXPECT_TRUE(same((*checkpoint)->tensor(name), want)) << name;
      continue;
    }
    const auto matrix = (*checkpoint)->quantized(module);
    ASSERT_TRUE(matrix) << module;
    EXPECT_TRUE(same(matrix->words, want)) << name;
    EXPECT_TRUE(same(matrix->scales, theirs.at(module + ".scales")));
    EXPECT_TRUE(same(matrix->biases, theirs.at(module + ".biases")));
  }
  EXPECT_EQ((*checkpoint)->weight_bytes(), bytes);
}

TEST(SafetensorsCheckpoint, ReadsPlainTensors) {
  expect_as_mlx_reads(fixture("llama/hf"));
  const auto checkpoint = open_safetensors_checkpoint(fixture("llama/hf"));
  EXPECT_EQ((*checkpoint)->config()["hidden_size"], 128);
  EXPECT_FALSE((*checkpoint)->quantized("model.layers.0.mlp.up_proj"));
  EXPECT_EQ((*checkpoint)->tensor("model.layers.0.mlp.up_proj.weight").shape(),
            (mlx::core::Shape{192, 128}));
}

TEST(SafetensorsCheckpoint, ReadsMlxQuantizedTensors) {
  for (const int bits : {4, 8}) {
    const std::string folder = fixture("llama/mlx-q" + std::to_string(bits));
    expect_as_mlx_reads(folder);
    const auto checkpoint = open_safetensors_checkpoint(folder);
    const auto matrix =
        (*checkpoint)->quantized("model.layers.2.mlp.down_proj");
    ASSERT_TRUE(matrix);
    EXPECT_EQ(matrix->bits, bits);
    EXPECT_EQ(matrix->group_size, 64);
    EXPECT_EQ(matrix->words.shape(), (mlx::core::Shape{128, 6 * bits}));
    EXPECT_EQ(matrix->scales.shape(), (mlx::core::Shape{128, 3}));
  }
}

// The quantized weights are near those they were made from.
TEST(SafetensorsCheckpoint, QuantizedIsNearPlain) {
  const auto plain = open_safetensors_checkpoint(fixture("llama/hf"));
  const auto packed = open_safetensors_checkpoint(fixture("llama/mlx-q8"));
  const std::string module = "model.layers.1.self_attn.q_proj";
  const auto matrix = (*packed)->quantized(module);
  ASSERT_TRUE(matrix);
  const array got =
      mlx::core::dequantize(matrix->words, matrix->scales, matrix->biases,
                            matrix->group_size, matrix->bits);
  const array want = (*plain)->tensor(module + ".weight");
  using namespace mlx::core;
  const array error = subtract(astype(got, float32), astype(want, float32));
  const float rms = sqrt(mean(square(error))).item<float>();
  const float size = sqrt(mean(square(astype(want, float32)))).item<float>();
  EXPECT_LT(rms, 0.02f * size);
}

TEST(SafetensorsCheckpoint, WrongNamesThrow) {
  const auto packed = open_safetensors_checkpoint(fixture("llama/mlx-q4"));
  const auto message = [&](auto call) -> std::string {
    try {
      call();
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(
      message([&] { (*packed)->tensor("model.nothing.weight"); }),
      AllOf(HasSubstr("model.nothing.weight"), HasSubstr("llama/mlx-q4")));
  EXPECT_THAT(message([&] { (*packed)->quantized("model.nothing"); }),
              HasSubstr("model.nothing.weight"));
  EXPECT_THAT(message([&] { (*packed)->tensor("lm_head.weight"); }),
              AllOf(HasSubstr("quantized"), HasSubstr("lm_head.weight"),
                    HasSubstr("model.safetensors")));
}

// Folders made on the spot.
class SafetensorsFolderTest : public ::testing::Test {
 protected:
  void expect_error(ErrorKind kind, const std::string& text) {
    const auto checkpoint = open_safetensors_checkpoint(folder_.path());
    ASSERT_FALSE(checkpoint);
    EXPECT_EQ(checkpoint.error().kind, kind) << checkpoint.error().message;
    EXPECT_THAT(checkpoint.error().message, HasSubstr(text));
  }
  // A file with one byte tensor of that name.
  void write_one(const std::string& file, const std::string& tensor) {
    folder_.write(
        file,
        safetensors_bytes(
            "{\"" + tensor +
                R"(": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})",
            tensor.substr(0, 1)));
  }
  // One scalar of every dtype that MLX's reader has (not F64).
  void write_every_dtype() {
    const std::pair<const char*, int> dtypes[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},   {"U16", 2},
        {"I16", 2},  {"U32", 4}, {"I32", 4},  {"U64", 8},
        {"I64", 8},  {"F16", 2}, {"BF16", 2}, {"F32", 4}};
    std::string header, data;
    for (const auto& [name, bytes] : dtypes) {
      header += fmt::format(R"({}"t.{}": {{"dtype": "{}", "shape": [], )"
                            R"("data_offsets": [{}, {}]}})",
                            header.empty() ? "{" : ", ", name, name,
                            data.size(), data.size() + bytes);
      data += std::string(bytes, '\1');
    }
    folder_.write("model.safetensors", safetensors_bytes(header + "}", data));
  }
  // Module "m" with 8 rows of 64 columns in 4 bits, group 64.
  void write_quantized(const std::string& dtype = "U32",
                       const std::string& words = "[8,8]",
                       const std::string& biases = "m.biases") {
    folder_.write(
        "model.safetensors",
        safetensors_bytes(R"({"m.weight": {"dtype": ")" + dtype +
                              R"(", "shape": )" + words +
                              R"(, "data_offsets": [0, 256]},)"
                              R"("m.scales": {"dtype": "F16", "shape": [8,1],)"
                              R"( "data_offsets": [256, 272]}, ")" +
                              biases +
                              R"(": {"dtype": "F16", "shape": [8,1],)"
                              R"( "data_offsets": [272, 288]}})",
                          std::string(288, '\0')));
  }

  TempFolder folder_;
};

TEST_F(SafetensorsFolderTest, EveryDtypeIsWhatMlxTakesItFor) {
  folder_.write("config.json", "{}");
  write_every_dtype();
  expect_as_mlx_reads(folder_.path());
}

TEST_F(SafetensorsFolderTest, SeveralFilesWithAnIndex) {
  folder_.write("config.json", "{}");
  write_one("first.safetensors", "a");
  write_one("second.safetensors", "b");
  write_one("model-not-in-the-index.safetensors", "a");
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"a": "first.safetensors",)"
                R"( "b": "second.safetensors"}})");
  const auto checkpoint = open_safetensors_checkpoint(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT((*checkpoint)->names(), ::testing::ElementsAre("a", "b"));
  EXPECT_EQ((*checkpoint)->tensor("b").data<std::uint8_t>()[0], 'b');
  EXPECT_EQ((*checkpoint)->weight_bytes(), 2u);
}

TEST_F(SafetensorsFolderTest, SeveralFilesWithoutAnIndex) {
  folder_.write("config.json", "{}");
  write_one("model-1.safetensors", "a");
  write_one("model-2.safetensors", "b");
  write_one("other.safetensors", "c");
  const auto checkpoint = open_safetensors_checkpoint(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT((*checkpoint)->names(), ::testing::ElementsAre("a", "b"));
  write_one("model-3.safetensors", "a");
  expect_error(ErrorKind::corrupt, "tensor 'a' is in");
}

TEST_F(SafetensorsFolderTest, AnIndexOfShardsThatWereJoined) {
  folder_.write("config.json", "{}");
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"a": "gone.safetensors"}})");
  write_one("model.safetensors", "b");
  expect_error(ErrorKind::not_found, "gone.safetensors");
  write_one("model.safetensors", "a");
  const auto checkpoint = open_safetensors_checkpoint(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT((*checkpoint)->names(), ::testing::ElementsAre("a"));
}

TEST_F(SafetensorsFolderTest, MissingParts) {
  expect_error(ErrorKind::not_found, "config.json");
  folder_.write("config.json", "{}");
  expect_error(ErrorKind::not_found, "model*.safetensors");
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"a": "gone.safetensors"}})");
  expect_error(ErrorKind::not_found, "gone.safetensors");
  write_one("gone.safetensors", "b");
  expect_error(ErrorKind::corrupt, "places tensor 'a' in");
}

TEST_F(SafetensorsFolderTest, BadJson) {
  write_one("model.safetensors", "a");
  for (const char* text : {"", "{", "{\"a\": }", "\xff\xfe", "nul"}) {
    folder_.write("config.json", text);
    expect_error(ErrorKind::corrupt, "config.json' is not valid JSON");
  }
  folder_.write("config.json", "[]");
  expect_error(ErrorKind::corrupt, "not a JSON object");
  folder_.write("config.json", "{}");
  folder_.write("model.safetensors.index.json", "{]");
  expect_error(ErrorKind::corrupt, "index.json' is not valid JSON");
  folder_.write("model.safetensors.index.json", R"({"weight_map": 3})");
  expect_error(ErrorKind::corrupt, "no object 'weight_map'");
  for (const char* file :
       {"\"../x\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "7", "null"}) {
    folder_.write("model.safetensors.index.json",
                  R"({"weight_map": {"a": )" + std::string(file) + "}}");
    expect_error(ErrorKind::corrupt, std::string("in ") + file);
  }
}

TEST_F(SafetensorsFolderTest, EmptyFile) {
  folder_.write("config.json", "{}");
  folder_.write("model.safetensors", "");
  expect_error(ErrorKind::corrupt, "model.safetensors' is empty");
}

TEST_F(SafetensorsFolderTest, QuantizationByModule) {
  folder_.write("config.json",
                R"({"quantization": {"group_size": 32, "bits": 8,)"
                R"( "m": {"group_size": 64, "bits": 4}}})");
  write_quantized();
  const auto checkpoint = open_safetensors_checkpoint(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto matrix = (*checkpoint)->quantized("m");
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix->group_size, 64);
  EXPECT_EQ(matrix->bits, 4);
}

TEST_F(SafetensorsFolderTest, QuantizationThatDoesNotFit) {
  const auto config = [&](const char* settings) {
    folder_.write("config.json",
                  R"({"quantization": )" + std::string(settings) + "}");
  };
  write_quantized();
  config(R"({"group_size": 32, "bits": 4})");
  expect_error(ErrorKind::corrupt, "words [8, 8], scales [8, 1]");
  config(R"({"group_size": 64, "bits": 8})");
  expect_error(ErrorKind::corrupt, "do not fit 8 bits in groups of 64");
  config(R"({"group_size": 32, "bits": 4, "mode": "mxfp4"})");
  expect_error(ErrorKind::unsupported, "mxfp4");
  config("null");
  expect_error(ErrorKind::corrupt, "no 'quantization'");
  config(R"({"group_size": 64, "bits": 4})");
  write_quantized("F32");
  expect_error(ErrorKind::corrupt, "not U32");
  write_quantized("U32", "[64]");
  expect_error(ErrorKind::corrupt, "words [64]");
  write_quantized("U32", "[4,16]");
  expect_error(ErrorKind::corrupt, "words [4, 16]");
  write_quantized("U32", "[8,8]", "other");
  expect_error(ErrorKind::corrupt, "no biases");
}

TEST(SafetensorsCheckpoint, StacksTensors) {
  const std::string up = "model.layers.{}.mlp.up_proj.weight";
  const std::vector<std::string> names = {fmt::format(fmt::runtime(up), 2),
                                          fmt::format(fmt::runtime(up), 0)};
  const auto checkpoint = open_safetensors_checkpoint(fixture("llama/hf"));
  const array stacked = (*checkpoint)->stacked(names);
  ASSERT_EQ(stacked.shape(), (mlx::core::Shape{2, 192, 128}));
  for (int i : {0, 1})
    EXPECT_TRUE(
        same(mlx::core::take(stacked, i, 0), (*checkpoint)->tensor(names[i])));
  for (const std::string& name : (*checkpoint)->unread())
    EXPECT_THAT(names, Not(::testing::Contains(name)));
  const auto shapes = open_safetensors_checkpoint(fixture("llama/hf"),
                                                  Checkpoint::Contents::shapes);
  EXPECT_EQ((*shapes)->stacked(names).shape(), stacked.shape());
  EXPECT_EQ((*shapes)->stacked(names).dtype(), stacked.dtype());
}

TEST(SafetensorsCheckpoint, StacksOnlyWhatIsAlike) {
  const auto checkpoint = open_safetensors_checkpoint(fixture("llama/hf"));
  const std::string a = "model.layers.0.mlp.up_proj.weight";
  const std::string b = "model.layers.0.mlp.down_proj.weight";
  try {
    (*checkpoint)->stacked({a, b});
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(b + "' is bfloat16 [128, 192]"),
                                HasSubstr("unlike '" + a)));
  }
  EXPECT_THROW((*checkpoint)->stacked({a, "absent"}), std::runtime_error);
  const auto quantized = open_safetensors_checkpoint(fixture("llama/mlx-q4"));
  EXPECT_THROW((*quantized)->stacked({a}), std::runtime_error);
}

}  // namespace
}  // namespace reprise
