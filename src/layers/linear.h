// Matrices with weights: linear layers and the embedding table, dense or
// quantized as the checkpoint stores them.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/ops.h"
#include "weights/checkpoint.h"

namespace reprise {

using Matrix = std::variant<mlx::core::array, kernels::QuantizedMatrix>;

struct Linear {
  Matrix weight;                         // [out, in]
  std::optional<mlx::core::array> bias;  // [out]

  int out_features() const;
  int in_features() const;
};

// "<module>.weight", quantized or not, and "<module>.bias" if it is there.
// Throws std::runtime_error naming tensor, file and both shapes unless the
// matrix is [out, in].
Linear load_linear(const Checkpoint& checkpoint, const std::string& module,
                   int out, int in);

// Layers of one input that a checkpoint may store as one, "<together>", their
// rows in the order of `parts`, or each as a module of its own.
struct LinearPart {
  std::string module;
  int out = 0;
};
std::vector<Linear> load_linears(const Checkpoint& checkpoint,
                                 const std::string& together,
                                 const std::vector<LinearPart>& parts, int in);

// A plain tensor that must be [dim]. Throws as load_linear.
mlx::core::array load_vector(const Checkpoint& checkpoint,
                             const std::string& name, int dim);

// A plain tensor that must be of `shape`. Throws as load_linear.
mlx::core::array load_tensor(const Checkpoint& checkpoint,
                             const std::string& name,
                             const mlx::core::Shape& shape);

// x [rows, in] → [rows, out].
mlx::core::array linear(const mlx::core::array& x, const Linear& layer);
// The same, rounded to `out` and not to x's dtype; the layer has no bias.
mlx::core::array linear(const mlx::core::array& x, const Linear& layer,
                        mlx::core::Dtype out);

// Columns [begin, end) of each of `heads` equal parts of x's rows:
// [rows, heads * (end - begin)].
mlx::core::array head_columns(const mlx::core::array& x, int heads, int begin,
                              int end);

// Rows `ids` of the table as `dtype`: [ids, in].
mlx::core::array embed(const Linear& table, const mlx::core::array& ids,
                       mlx::core::Dtype dtype);

}  // namespace reprise
