#include "weights/gguf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "weights/gguf_config.h"
#include "weights/gguf_file.h"
#include "weights/gguf_quant.h"
#include "weights/mapped_array.h"

namespace reprise {
namespace {

using mlx::core::array;
using mlx::core::Dtype;
using mlx::core::Shape;

// Source bytes repacked between two releases of their pages.
constexpr std::size_t kRepackBytes = 1 << 20;

const char* const kServedTypes = "F32, F16, BF16, Q4_0, Q4_1 and Q8_0";

std::optional<Dtype> plain_dtype(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return mlx::core::float32;
    case GgufType::f16:
      return mlx::core::float16;
    case GgufType::bf16:
      return mlx::core::bfloat16;
    default:
      return std::nullopt;
  }
}

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(std::shared_ptr<const MappedFile> file, nlohmann::json config,
                 std::map<std::string, GgufTensor> tensors, Contents contents)
      : Checkpoint(contents),
        file_(std::move(file)),
        config_(std::move(config)),
        tensors_(std::move(tensors)) {}

  const nlohmann::json& config() const override { return config_; }

  bool contains(const std::string& name) const override {
    return tensors_.contains(name);
  }

  std::vector<TensorInfo> tensors() const override;

 protected:
  array load_tensor(const std::string& name) const override;
  std::optional<QuantizedTensor> load_quantized(
      const std::string& module) const override;
  void release(const std::string& name) const override {
    const GgufTensor& tensor = find(name);
    release_pages(*file_, tensor.offset, tensor.bytes);
  }

 private:
  const GgufTensor& find(const std::string& name) const;
  bool biases_fit_half(const GgufTensor& tensor) const;
  void repack(const GgufTensor& tensor, const GgufRepackTarget& target) const;

  // Calls visit(blocks, index of the first) over the tensor, piece by piece,
  // and gives the pages of each piece back: a tensor is never resident twice.
  template <typename Visit>
  void walk(const GgufTensor& tensor, const Visit& visit) const;

  const std::shared_ptr<const MappedFile> file_;
  const nlohmann::json config_;
  const std::map<std::string, GgufTensor> tensors_;  // Hugging Face's names
};

std::vector<TensorInfo> GgufCheckpoint::tensors() const {
  std::vector<TensorInfo> result;
  for (const auto& [name, tensor] : tensors_) {
    TensorInfo info{.name = name,
                    .dtype = gguf_type_info(tensor.type)->name,
                    .shape = tensor.shape,
                    .bytes = tensor.bytes,
                    .file = file_->path(),
                    .quantization = {},
                    .parameters = 1};
    for (const std::int64_t n : tensor.shape) info.parameters *= n;
    if (const int bits = gguf_quant_bits(tensor.type); bits > 0)
      info.quantization = {.bits = bits, .group_size = kGgufGroupSize};
    if (const auto plain = plain_dtype(tensor.type))
      info.dtype = dtype_name(*plain);
    result.push_back(std::move(info));
  }
  return result;
}

const GgufTensor& GgufCheckpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw std::runtime_error(
        fmt::format("'{}' has no tensor '{}'", file_->path(), name));
  return found->second;
}

array GgufCheckpoint::load_tensor(const std::string& name) const {
  const GgufTensor& tensor = find(name);
  const auto dtype = plain_dtype(tensor.type);
  if (!dtype)
    throw std::runtime_error(fmt::format(
        "tensor '{}' in '{}' is quantized ({}), and a plain one is needed",
        name, file_->path(), gguf_type_info(tensor.type)->name));
  return mapped_array(file_, tensor.offset,
                      Shape(tensor.shape.begin(), tensor.shape.end()), *dtype);
}

std::optional<QuantizedTensor> GgufCheckpoint::load_quantized(
    const std::string& module) const {
  const GgufTensor& tensor = find(module + ".weight");
  const int bits = gguf_quant_bits(tensor.type);
  if (bits == 0) return std::nullopt;
  Shape words(tensor.shape.begin(), tensor.shape.end());
  Shape scales = words;
  scales.back() /= kGgufGroupSize;
  words.back() = scales.back() * bits;  // 32 fields of `bits` are `bits` words
  const bool filled = contents_ == Contents::values;
  const bool half = !filled || biases_fit_half(tensor);
  const Dtype dtype = half ? mlx::core::float16 : mlx::core::float32;
  QuantizedTensor result{.words = unfilled_array(words, mlx::core::uint32),
                         .scales = unfilled_array(scales, dtype),
                         .biases = unfilled_array(scales, dtype),
                         .group_size = kGgufGroupSize,
                         .bits = bits};
  if (!filled) return result;
  repack(tensor, {.words = result.words.data<std::uint32_t>(),
                  .scales = result.scales.data<void>(),
                  .biases = result.biases.data<void>(),
                  .half = half});
  return result;
}

bool GgufCheckpoint::biases_fit_half(const GgufTensor& tensor) const {
  bool fit = true;
  if (tensor.type == GgufType::q4_1) return fit;
  walk(tensor, [&](std::span<const std::byte> blocks, std::size_t) {
    fit = fit && gguf_biases_fit_half(tensor.type, blocks);
  });
  return fit;
}

void GgufCheckpoint::repack(const GgufTensor& tensor,
                            const GgufRepackTarget& target) const {
  walk(tensor, [&](std::span<const std::byte> blocks, std::size_t first) {
    gguf_repack(tensor.type, blocks, first, target);
  });
}

template <typename Visit>
void GgufCheckpoint::walk(const GgufTensor& tensor, const Visit& visit) const {
  const std::size_t block = gguf_type_info(tensor.type)->bytes;
  const std::size_t piece = kRepackBytes / block * block;
  for (std::size_t at = 0; at < tensor.bytes; at += piece) {
    const std::size_t size = std::min(piece, tensor.bytes - at);
    visit(file_->bytes().subspan(tensor.offset + at, size), at / block);
    release_pages(*file_, tensor.offset + at, size);
  }
}

// The file's tensors under Hugging Face's names, all of types we serve.
Result<std::map<std::string, GgufTensor>> named_tensors(const GgufFile& file) {
  std::map<std::string, GgufTensor> result;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!plain_dtype(tensor.type) && gguf_quant_bits(tensor.type) == 0)
      return Error{
          ErrorKind::unsupported,
          fmt::format("tensor '{}' in '{}' has type {}; served are {}",
                      tensor.name, file.path(),
                      gguf_type_info(tensor.type)->name, kServedTypes)};
    const std::string name = hugging_face_name(tensor.name);
    if (!result.emplace(name, tensor).second)
      return Error{
          ErrorKind::corrupt,
          fmt::format("'{}' has two tensors for '{}', one of them '{}'",
                      file.path(), name, tensor.name)};
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf_checkpoint(
    const std::string& path, Checkpoint::Contents contents) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  auto config = gguf_config(*file);
  if (!config) return config.error();
  auto tensors = named_tensors(*file);
  if (!tensors) return tensors.error();
  // The header's pages are not needed any more.
  const std::size_t size = file->file()->bytes().size();
  file->file()->release(0, size);
  return std::unique_ptr<Checkpoint>(std::make_unique<GgufCheckpoint>(
      file->file(), std::move(*config), std::move(*tensors), contents));
}

}  // namespace reprise
