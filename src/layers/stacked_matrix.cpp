#include "layers/stacked_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/ops.h>

#include <stdexcept>
#include <vector>

namespace reprise {
namespace {

namespace mx = mlx::core;
using kernels::QuantizedExperts;

StackedShape shape_of(const StackedMatrix& matrices) {
  if (const auto* q = std::get_if<QuantizedExperts>(&matrices))
    return q->words.ndim() == 3
               ? StackedShape{q->experts(), q->rows(), q->columns()}
               : StackedShape{};
  const auto& dense = std::get<mx::array>(matrices);
  return dense.ndim() == 3
             ? StackedShape{dense.shape(0), dense.shape(1), dense.shape(2)}
             : StackedShape{};
}

void require_shape(const StackedMatrix& matrices, const std::string& name,
                   const StackedShape& want) {
  const StackedShape is = shape_of(matrices);
  if (is.count != want.count || is.out != want.out || is.in != want.in)
    throw std::runtime_error(fmt::format(
        "tensor '{}' is {} x {} x {}, but the configuration asks for "
        "{} x {} x {}",
        name, is.count, is.out, is.in, want.count, want.out, want.in));
}

}  // namespace

StackedMatrix load_stacked(const Checkpoint& checkpoint,
                           const std::string& module,
                           const StackedShape& shape) {
  const std::string name = module + ".weight";
  const auto q = checkpoint.quantized(module);
  if (!q) return load_stacked_tensor(checkpoint, name, shape);
  const QuantizedExperts matrices{q->words, q->scales, q->biases, q->group_size,
                                  q->bits};
  require_shape(matrices, name, shape);
  return matrices;
}

mx::array load_stacked_tensor(const Checkpoint& checkpoint,
                              const std::string& name,
                              const StackedShape& shape) {
  const mx::array matrices = checkpoint.tensor(name);
  require_shape(matrices, name, shape);
  return matrices;
}

mx::array load_stacked_list(const Checkpoint& checkpoint,
                            const std::string& list, const char* part,
                            const StackedShape& shape) {
  std::vector<std::string> names;
  for (int i = 0; i < shape.count; ++i)
    names.push_back(fmt::format("{}.{}.{}.weight", list, i, part));
  const mx::array matrices = checkpoint.stacked(names);
  require_shape(matrices, names[0], shape);
  return matrices;
}

StackedMatrix stacked_rows(const StackedMatrix& matrices, int begin, int end) {
  const auto rows = [&](const mx::array& a) {
    return mx::slice(a, {0, begin, 0}, {a.shape(0), end, a.shape(2)});
  };
  if (const auto* q = std::get_if<QuantizedExperts>(&matrices))
    return QuantizedExperts{rows(q->words), rows(q->scales), rows(q->biases),
                            q->group_size, q->bits};
  return rows(std::get<mx::array>(matrices));
}

mx::array stacked_matmul(const mx::array& x, const StackedMatrix& matrices,
                         const mx::array& ids) {
  return std::visit(
      [&](const auto& w) { return kernels::expert_matmul(x, w, ids); },
      matrices);
}

mx::array head_matmul(const mx::array& x, const StackedMatrix& matrices) {
  const StackedShape shape = shape_of(matrices);
  const int tokens = x.shape(0);
  const auto ids = mx::broadcast_to(mx::arange(shape.count, mx::int32),
                                    {tokens, shape.count});
  const auto rows = mx::reshape(x, {tokens * shape.count, shape.in});
  return mx::reshape(stacked_matmul(rows, matrices, ids),
                     {tokens, shape.count * shape.out});
}

}  // namespace reprise
