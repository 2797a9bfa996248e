#include "layers/linear.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/ops.h>

#include <stdexcept>
#include <vector>

namespace reprise {
namespace {

namespace mx = mlx::core;

struct MatrixShape {
  int rows = 0;
  int columns = 0;
};

MatrixShape shape_of(const Matrix& matrix) {
  if (const auto* q = std::get_if<kernels::QuantizedMatrix>(&matrix))
    return {q->rows(), q->columns()};
  const auto& dense = std::get<mx::array>(matrix);
  if (dense.ndim() != 2) return {};
  return {dense.shape(0), dense.shape(1)};
}

Matrix load_matrix(const Checkpoint& checkpoint, const std::string& module) {
  if (auto q = checkpoint.quantized(module))
    return kernels::QuantizedMatrix{q->words, q->scales, q->biases,
                                    q->group_size, q->bits};
  return checkpoint.tensor(module + ".weight");
}

// Rows [begin, end); shares the layer's memory.
Linear rows_of(const Linear& layer, int begin, int end) {
  const auto rows = [&](const mx::array& a) {
    auto from = mx::Shape(a.ndim(), 0);
    auto to = a.shape();
    from[0] = begin;
    to[0] = end;
    return mx::slice(a, from, to);
  };
  Linear part{layer.weight, std::nullopt};
  if (auto* q = std::get_if<kernels::QuantizedMatrix>(&part.weight)) {
    q->words = rows(q->words);
    q->scales = rows(q->scales);
    q->biases = rows(q->biases);
  } else {
    part.weight = rows(std::get<mx::array>(layer.weight));
  }
  if (layer.bias) part.bias = rows(*layer.bias);
  return part;
}

}  // namespace

int Linear::out_features() const {
  return shape_of(weight).rows;
}
int Linear::in_features() const {
  return shape_of(weight).columns;
}

Linear load_linear(const Checkpoint& checkpoint, const std::string& module,
                   int out, int in) {
  Linear layer{load_matrix(checkpoint, module), std::nullopt};
  const MatrixShape shape = shape_of(layer.weight);
  if (shape.rows != out || shape.columns != in)
    throw std::runtime_error(fmt::format(
        "tensor '{}.weight' is {} x {}, but the configuration asks for "
        "{} x {}",
        module, shape.rows, shape.columns, out, in));
  if (checkpoint.contains(module + ".bias"))
    layer.bias = load_vector(checkpoint, module + ".bias", out);
  return layer;
}

std::vector<Linear> load_linears(const Checkpoint& checkpoint,
                                 const std::string& together,
                                 const std::vector<LinearPart>& parts, int in) {
  std::vector<Linear> layers;
  if (!checkpoint.contains(together + ".weight")) {
    for (const LinearPart& part : parts)
      layers.push_back(load_linear(checkpoint, part.module, part.out, in));
    return layers;
  }
  int rows = 0;
  for (const LinearPart& part : parts) rows += part.out;
  const Linear all = load_linear(checkpoint, together, rows, in);
  int begin = 0;
  for (const LinearPart& part : parts) {
    layers.push_back(rows_of(all, begin, begin + part.out));
    begin += part.out;
  }
  return layers;
}

mx::array load_vector(const Checkpoint& checkpoint, const std::string& name,
                      int dim) {
  mx::array vector = checkpoint.tensor(name);
  if (vector.ndim() != 1 || vector.shape(0) != dim)
    throw std::runtime_error(fmt::format(
        "tensor '{}' has {} elements, but the configuration asks for {}", name,
        vector.size(), dim));
  return vector;
}

mx::array load_tensor(const Checkpoint& checkpoint, const std::string& name,
                      const mx::Shape& shape) {
  mx::array tensor = checkpoint.tensor(name);
  if (tensor.shape() != shape)
    throw std::runtime_error(fmt::format(
        "tensor '{}' is [{}], but the configuration asks for [{}]", name,
        fmt::join(tensor.shape(), ", "), fmt::join(shape, ", ")));
  return tensor;
}

mx::array linear(const mx::array& x, const Linear& layer) {
  const mx::array y =
      std::visit([&](const auto& weight) { return kernels::matmul(x, weight); },
                 layer.weight);
  if (!layer.bias) return y;
  return mx::add(y, mx::astype(*layer.bias, y.dtype()));
}

mx::array linear(const mx::array& x, const Linear& layer, mx::Dtype out) {
  if (layer.bias)
    throw std::invalid_argument("[linear] a bias with another output type");
  return std::visit(
      [&](const auto& weight) { return kernels::matmul(x, weight, out); },
      layer.weight);
}

mx::array head_columns(const mx::array& x, int heads, int begin, int end) {
  const int rows = x.shape(0);
  const auto parts = mx::reshape(x, {rows, heads, x.shape(1) / heads});
  return mx::reshape(mx::slice(parts, {0, 0, begin}, {rows, heads, end}),
                     {rows, heads * (end - begin)});
}

mx::array embed(const Linear& table, const mx::array& ids, mx::Dtype dtype) {
  return std::visit(
      [&](const auto& weight) {
        return kernels::take_rows(weight, ids, dtype);
      },
      table.weight);
}

}  // namespace reprise
