// What state a model keeps: per layer, its families. A model declares this
// once; pools, blocks and everything above them follow from it.
#pragma once

#include <mlx/dtype.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cache/growth.h"

namespace reprise {

struct StateFamily {
  std::string name;  // unique in its layer: "keys", "values", "latent", ...
  Growth growth;
  int row_elements = 0;
  mlx::core::Dtype dtype = mlx::core::float32;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(row_elements) * size_of(dtype);
  }
};

using LayerState = std::vector<StateFamily>;
using StateLayout = std::vector<LayerState>;  // by layer

// Bytes of one block (kBlockTokens tokens) over all layers and families.
std::size_t block_bytes(const StateLayout& layout);

}  // namespace reprise
