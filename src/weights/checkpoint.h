// A model on disk, opened: its configuration as JSON and its tensors by name,
// whatever the container. A folder (config.json, *.safetensors with or without
// an index, MLX or Hugging Face names) or a single GGUF file. Tensors come
// out as MLX arrays; load on the thread that will use them.
//
// Tensor data is memory-mapped. A tensor that needs no repacking shares the
// mapping (no copy, but for the smallest); one that does is copied and its
// pages are released, so resident memory while loading stays within 1.1 x the
// weights.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/tensor_info.h"

namespace reprise {

// How a module's matrix is stored: kernels::QuantizedMatrix has the layout.
struct QuantizedTensor {
  mlx::core::array words;
  mlx::core::array scales;
  mlx::core::array biases;
  int group_size = 64;
  int bits = 4;
};

class Checkpoint {
 public:
  // Opens a folder or a .gguf file: reads headers and checks every size,
  // offset, type and shape in them against the file, no data yet. Errors name
  // the file and the tensor: not_found, corrupt, unsupported (with the type's
  // name), invalid. With Contents::shapes, matrices that would have to be
  // repacked have their shapes and types, and nobody may read their values.
  enum class Contents { values, shapes };
  static Result<std::unique_ptr<Checkpoint>> open(
      const std::string& path, Contents contents = Contents::values);
  virtual ~Checkpoint() = default;

  // Hugging Face's config.json. For GGUF, made of its metadata with Hugging
  // Face's keys (hidden_size, num_hidden_layers, ...), "model_type" =
  // general.architecture, and "rope_interleaved": true, the container's
  // default: Q and K rows are stored for interleaved rotary pairs. An
  // architecture whose conversion keeps Hugging Face's order ignores it.
  virtual const nlohmann::json& config() const = 0;

  virtual bool contains(const std::string& name) const = 0;
  virtual std::vector<TensorInfo> tensors() const = 0;  // by name
  std::vector<std::string> names() const;
  std::size_t weight_bytes() const;  // of all tensors

  // A plain tensor under its Hugging Face name ("model.norm.weight"). GGUF's
  // names are translated. Throws std::runtime_error naming tensor and file
  // when it is missing, or quantized.
  mlx::core::array tensor(const std::string& name) const;

  // Plain tensors of one shape and type as one, [names, ...]: a copy, made at
  // once; with Contents::shapes, of the shape alone. Throws as tensor(), and
  // for a tensor that is unlike the first.
  mlx::core::array stacked(const std::vector<std::string>& names) const;

  // The matrix of a module ("model.layers.0.mlp.up_proj") if it is stored
  // quantized: "<module>.weight" with "<module>.scales", or a quantized GGUF
  // tensor (Q4_0, Q4_1, Q8_0: repacked without loss, group 32). Empty if the
  // module is dense. Throws as tensor().
  std::optional<QuantizedTensor> quantized(const std::string& module) const;

  // The tensors that neither of the two has given out: once a model is built,
  // those that it does not use.
  std::vector<std::string> unread() const;

 protected:
  explicit Checkpoint(Contents contents) : contents_(contents) {}

  virtual mlx::core::array load_tensor(const std::string& name) const = 0;
  virtual std::optional<QuantizedTensor> load_quantized(
      const std::string& module) const = 0;
  // The tensor was copied: its pages of the file are not needed soon.
  virtual void release(const std::string& name) const = 0;

  const Contents contents_;

 private:
  mutable std::set<std::string> given_;
};

// "float32", "bfloat16", "uint32", ...
std::string dtype_name(mlx::core::Dtype dtype);

}  // namespace reprise
