#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/backend/cpu/encoder.h>

#include <cstring>
#include <stdexcept>

#include "kernels/cpu/host_primitive.h"
#include "kernels/fault.h"
#include "kernels/ops.h"

namespace reprise::kernels {
namespace {

// Everything a task needs, by value: it runs after eval_cpu has returned.
struct AppendTask {
  char* pool;
  cpu::RowView rows;
  std::size_t row_bytes;
  RaggedBatchPtr batch;

  char* at(std::int64_t pool_row) const {
    return pool + static_cast<std::size_t>(pool_row) * row_bytes;
  }

  void operator()() const {
    fault_point(FaultStage::task);
    // Copies come first: a copied block may receive one of the new rows.
    for (const RowCopy& c : batch->copies)
      std::memmove(at(c.to_row), at(c.from_row),
                   static_cast<std::size_t>(c.rows) * row_bytes);
    const char* from = rows.data;
    for (std::int64_t pool_row : batch->pool_rows) {
      if (pool_row >= 0) std::memcpy(at(pool_row), from, row_bytes);
      from += rows.row_bytes;
    }
  }
};

class Append : public cpu::HostPrimitive {
 public:
  explicit Append(RaggedBatchPtr batch) : batch_(std::move(batch)) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    fault_point(FaultStage::eval);
    const array& pool = inputs[0];
    if (!pool.flags().row_contiguous)
      throw std::runtime_error("[append] the pool is not row-contiguous");
    // Not a copy, and not a donation either: the caller holds the pool's
    // handle, so nothing else can ever be given this memory.
    out.copy_shared_buffer(pool);
    const auto rows = cpu::row_view(inputs[1], stream());
    mlx::core::cpu::get_command_encoder(stream()).dispatch(AppendTask{
        out.data<char>(), rows, pool.shape(1) * pool.itemsize(), batch_});
  }

  const char* name() const override { return "Append"; }

 private:
  const RaggedBatchPtr batch_;
};

void check_shapes(const array& pool, const array& rows,
                  const RaggedBatch& batch) {
  if (pool.ndim() != 2 || rows.ndim() != 2 || pool.shape(1) != rows.shape(1))
    throw std::invalid_argument(fmt::format(
        "[append] pool [rows, dim] and rows [tokens, dim] must have the same "
        "dim; they have {} and {} axes of last size {} and {}",
        pool.ndim(), rows.ndim(), pool.shape(-1), rows.shape(-1)));
  if (pool.dtype() != rows.dtype())
    throw std::invalid_argument(
        "[append] rows must have the pool's dtype; use astype first");
  const auto tokens = static_cast<std::size_t>(rows.shape(0));
  if (batch.pool_rows.size() != tokens)
    throw std::invalid_argument(
        fmt::format("[append] {} rows for a batch that places {}", tokens,
                    batch.pool_rows.size()));
}

void check_places(std::int64_t pool_rows, const RaggedBatch& batch) {
  for (std::int64_t row : batch.pool_rows)
    if (row >= pool_rows)
      throw std::invalid_argument(fmt::format(
          "[append] row {} is outside the pool of {} rows", row, pool_rows));
  for (const RowCopy& c : batch.copies)
    if (c.rows < 0 || c.from_row < 0 || c.to_row < 0 ||
        c.from_row > pool_rows - c.rows || c.to_row > pool_rows - c.rows)
      throw std::invalid_argument(fmt::format(
          "[append] a copy of {} rows from {} to {} is outside the pool of "
          "{} rows",
          c.rows, c.from_row, c.to_row, pool_rows));
}

}  // namespace

array append(const array& pool, const array& rows,
             const RaggedBatchPtr& batch) {
  fault_point(FaultStage::build);
  check_shapes(pool, rows, *batch);
  check_places(pool.shape(0), *batch);
  // No composition of MLX operations writes in place, so there is nothing to
  // fall back to elsewhere.
  if (!cpu::on_cpu())
    throw std::runtime_error("[append] runs on the CPU only in this build");
  return array(pool.shape(), pool.dtype(), std::make_shared<Append>(batch),
               {pool, rows});
}

}  // namespace reprise::kernels
