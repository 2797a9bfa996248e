// What a checkpoint says about one of its tensors, without reading it. No MLX.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct StoredQuantization {
  int bits = 0;
  int group_size = 0;

  bool operator==(const StoredQuantization&) const = default;
};

struct TensorInfo {
  std::string name;                 // Hugging Face's
  std::string dtype;                // as stored: "bfloat16", "uint32", "Q4_1"
  std::vector<std::int32_t> shape;  // as stored: words, if they are packed
  std::size_t bytes = 0;
  std::string file;  // path
  // Of a module's packed matrix; none for its scales and biases.
  std::optional<StoredQuantization> quantization;
  // Numbers of the model that it holds: a packed matrix those that it stands
  // for, its scales and biases none.
  std::int64_t parameters = 0;
};

}  // namespace reprise
