#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/ops.h>
#include <mlx/utils.h>

#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "base/check.h"
#include "weights/gguf_checkpoint.h"
#include "weights/mapped_array.h"
#include "weights/safetensors_checkpoint.h"

namespace reprise {

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path,
                                                     Contents contents) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status))
    return open_safetensors_checkpoint(path, contents);
  if (fs::is_regular_file(status)) {
    if (fs::path(path).extension() == ".safetensors")
      return Error{
          ErrorKind::invalid,
          fmt::format(
              "'{}' is a single safetensors file; give the folder that has it "
              "and its config.json",
              path)};
    return open_gguf_checkpoint(path, contents);
  }
  return Error{
      ErrorKind::not_found,
      fmt::format(
          "no model at '{}': give a folder with config.json and safetensors "
          "files, or a GGUF file",
          path)};
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors()) names.push_back(tensor.name);
  return names;
}

std::size_t Checkpoint::weight_bytes() const {
  std::size_t sum = 0;
  for (const TensorInfo& tensor : tensors()) sum += tensor.bytes;
  return sum;
}

mlx::core::array Checkpoint::tensor(const std::string& name) const {
  auto result = load_tensor(name);
  given_.insert(name);
  return result;
}

std::optional<QuantizedTensor> Checkpoint::quantized(
    const std::string& module) const {
  auto result = load_quantized(module);
  if (result)
    for (const char* part : {".weight", ".scales", ".biases"})
      given_.insert(module + part);
  return result;
}

mlx::core::array Checkpoint::stacked(
    const std::vector<std::string>& names) const {
  CHECK(!names.empty());
  const auto first = tensor(names[0]);
  mlx::core::Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<int>(names.size()));
  std::optional<mlx::core::array> result;
  if (contents_ == Contents::values)
    result = unfilled_array(shape, first.dtype());
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto part = tensor(names[i]);
    if (part.shape() != first.shape() || part.dtype() != first.dtype())
      throw std::runtime_error(fmt::format(
          "tensor '{}' is {} [{}], unlike '{}', which is {} [{}]", names[i],
          dtype_name(part.dtype()), fmt::join(part.shape(), ", "), names[0],
          dtype_name(first.dtype()), fmt::join(first.shape(), ", ")));
    if (!result) continue;
    part = mlx::core::contiguous(part);
    part.eval();
    std::memcpy(result->data<char>() + i * part.nbytes(), part.data<char>(),
                part.nbytes());
    release(names[i]);
  }
  return result ? *result : mlx::core::zeros(shape, first.dtype());
}

std::vector<std::string> Checkpoint::unread() const {
  std::vector<std::string> result;
  for (std::string& name : names())
    if (!given_.contains(name)) result.push_back(std::move(name));
  return result;
}

std::string dtype_name(mlx::core::Dtype dtype) {
  std::ostringstream text;
  text << dtype;
  return text.str();
}

}  // namespace reprise
