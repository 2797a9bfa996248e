#include "kernels/sparse_attention.h"

#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>

#include <stdexcept>

#include "base/limits.h"
#include "kernels/cpu/attention_operands.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/sparse_run.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

class SparseAttention : public cpu::HostPrimitive {
 public:
  // The node's inputs: `operands`, then index queries, weights and pools.
  SparseAttention(RaggedBatchPtr batch, cpu::AttentionOperands operands,
                  const IndexShape& shape)
      : batch_(std::move(batch)),
        operands_(std::move(operands)),
        shape_(shape) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    out.set_data(mlx::core::allocator::malloc(out.nbytes()));
    cpu::AttentionTask task = operands_.bind(inputs, stream());
    task.out = out.data<char>();
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [task, index = index_task(inputs), batch = batch_] {
          cpu::run_sparse_attention(task, index, *batch);
        });
  }

  const char* name() const override { return "SparseAttention"; }

 private:
  cpu::IndexTask index_task(const std::vector<array>& inputs) {
    const array* last = &inputs.back();
    if (!last->flags().row_contiguous)
      throw std::runtime_error(
          "[sparse_attention] the pool of index keys is not row-contiguous");
    const auto queries = cpu::row_view(last[-2], stream());
    const auto weights = cpu::row_view(last[-1], stream());
    return {.queries = queries.data,
            .query_row_bytes = queries.row_bytes,
            .weights = weights.data,
            .weight_row_bytes = weights.row_bytes,
            .pooled = last->data<char>(),
            .type = cpu::element_type(last->dtype(), "sparse_attention"),
            .heads = shape_.heads,
            .dim = shape_.dim,
            .pool = shape_.pool,
            .keep = shape_.budget / shape_.pool,
            .scale = shape_.scale};
  }

  const RaggedBatchPtr batch_;
  const cpu::AttentionOperands operands_;
  const IndexShape shape_;
};

void check_index(const array& q, const IndexQueries& index,
                 const IndexPools& pools, std::int64_t state_rows,
                 const IndexShape& s) {
  if (s.heads < 1 || s.dim < 1 || s.pool < 1 || kBlockTokens % s.pool != 0 ||
      s.budget < s.pool)
    throw std::invalid_argument(fmt::format(
        "[sparse_attention] an index of {} heads of {}, pools of {} tokens "
        "(a divisor of {}), a budget of {} tokens (a pool at least)",
        s.heads, s.dim, s.pool, kBlockTokens, s.budget));
  const auto is = [](const array& a, int rows, int columns) {
    return a.ndim() == 2 && a.shape(0) == rows && a.shape(1) == columns;
  };
  if (!is(index.queries, q.shape(0), s.heads * s.dim) ||
      !is(index.weights, q.shape(0), s.heads))
    throw std::invalid_argument(fmt::format(
        "[sparse_attention] index queries must be [{}, {}], weights [{}, {}]",
        q.shape(0), s.heads * s.dim, q.shape(0), s.heads));
  const auto rows = static_cast<int>(state_rows / s.pool);
  if (!is(pools.pooled, rows, s.dim))
    throw std::invalid_argument(
        fmt::format("[sparse_attention] pooled keys must be [{}, {}] beside "
                    "{} rows of state",
                    rows, s.dim, state_rows));
  if (index.queries.dtype() != q.dtype() || pools.pooled.dtype() != q.dtype() ||
      index.weights.dtype() != mlx::core::float32)
    throw std::invalid_argument(
        "[sparse_attention] index queries and pooled keys must have the "
        "queries' dtype, weights float32");
}

}  // namespace

array sparse_attention(const array& q, const std::vector<StateRows>& keys,
                       const StateRows& values, const IndexQueries& index,
                       const IndexPools& pools, const RaggedBatchPtr& batch,
                       const AttentionShape& shape,
                       const IndexShape& index_shape) {
  cpu::check_attention(q, keys, values, std::nullopt, *batch, shape);
  if (shape.window != 0)
    throw std::invalid_argument(fmt::format(
        "[sparse_attention] takes no window; it was {}", shape.window));
  check_index(q, index, pools, values.plain.shape(0), index_shape);
  if (!cpu::on_cpu())
    return plain::sparse_attention(q, keys, values, index, pools, batch, shape,
                                   index_shape);
  std::vector<array> inputs;
  cpu::AttentionOperands operands(q, keys, values, std::nullopt, shape, inputs);
  inputs.insert(inputs.end(), {index.queries, index.weights, pools.pooled});
  return array({q.shape(0), shape.heads * shape.values()}, q.dtype(),
               std::make_shared<SparseAttention>(batch, std::move(operands),
                                                 index_shape),
               std::move(inputs));
}

}  // namespace reprise::kernels
