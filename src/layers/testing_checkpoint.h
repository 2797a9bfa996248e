// A checkpoint of tensors that a test makes.
#pragma once

#include <mlx/io.h>
#include <mlx/ops.h>
#include <mlx/random.h>
#include <mlx/transforms.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "weights/checkpoint.h"
#include "weights/testing_files.h"

namespace reprise::testing {

using Tensors = std::unordered_map<std::string, mlx::core::array>;

// The file is mapped, so the folder may go as soon as this returns.
inline std::unique_ptr<Checkpoint> checkpoint_of(
    const Tensors& tensors, const nlohmann::json& config = {}) {
  const TempFolder folder;
  folder.write("config.json", config.is_null() ? "{}" : config.dump());
  mlx::core::save_safetensors(folder.path("model.safetensors"), tensors);
  auto opened = Checkpoint::open(folder.path());
  if (!opened) throw std::runtime_error(opened.error().message);
  return std::move(*opened);
}

// Adds "<module>.weight", ".scales" and ".biases" of a matrix, or of a stack,
// with scales in bfloat16, as published files have them.
inline void add_quantized(Tensors& tensors, const std::string& module,
                          const mlx::core::array& w, int bits) {
  const auto parts =
      mlx::core::quantize(mlx::core::astype(w, mlx::core::bfloat16), 64, bits);
  const char* const names[] = {".weight", ".scales", ".biases"};
  for (std::size_t i = 0; i < 3; ++i)
    tensors.insert_or_assign(module + names[i], parts[i]);
}

inline nlohmann::json quantized_config(int bits) {
  return {{"quantization", {{"group_size", 64}, {"bits", bits}}}};
}

inline bool same_bits(const mlx::core::array& a, const mlx::core::array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         mlx::core::array_equal(a, b).item<bool>();
}

inline bool close(const mlx::core::array& a, const mlx::core::array& b) {
  return mlx::core::allclose(a, b, 1e-4, 1e-4).item<bool>();
}

// What a call throws, or "" where it does not.
template <typename Call>
std::string thrown_by(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return {};
}

}  // namespace reprise::testing
