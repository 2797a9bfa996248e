#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/backend/cpu/encoder.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "base/limits.h"
#include "kernels/batch_checks.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/state_operand.h"
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

// A step's rows of a family that has a plain and a quantized pool, for one of
// the two: those at positions [begin, end).
struct StateAppendTask {
  char* pool;
  std::int64_t pool_row_bytes;
  cpu::RowView rows;
  std::optional<cpu::RowFormat> format;  // none: rows are written as they are
  int begin, end;
  std::vector<RowCopy> copies;
  RaggedBatchPtr batch;

  char* at(std::int64_t pool_row) const {
    return pool + pool_row * pool_row_bytes;
  }

  void write(int row) const {
    const std::int64_t pool_row = batch->pool_rows[row];
    if (pool_row < 0) return;
    const char* from = rows.data + row * rows.row_bytes;
    if (format)
      cpu::quantize(*format, from, at(pool_row));
    else
      std::memcpy(at(pool_row), from, pool_row_bytes);
  }

  void operator()() const {
    fault_point(FaultStage::task);
    for (const RowCopy& c : copies)
      std::memmove(at(c.to_row), at(c.from_row), c.rows * pool_row_bytes);
    for (const RaggedSpan& span : batch->spans) {
      const int first = std::max(begin - span.start, 0);
      const int last = std::min(end - span.start, span.row_count);
      for (int i = first; i < last; ++i) write(span.first_row + i);
    }
  }
};

class StateAppend : public cpu::HostPrimitive {
 public:
  // `task` without pointers.
  explicit StateAppend(StateAppendTask task) : task_(std::move(task)) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    fault_point(FaultStage::eval);
    if (!inputs[0].flags().row_contiguous)
      throw std::runtime_error("[append] the pool is not row-contiguous");
    out.copy_shared_buffer(inputs[0]);
    StateAppendTask task = task_;
    task.rows = cpu::row_view(inputs[1], stream());
    task.pool = out.data<char>();
    mlx::core::cpu::get_command_encoder(stream()).dispatch(std::move(task));
  }

  const char* name() const override { return "StateAppend"; }

 private:
  const StateAppendTask task_;
};

// The position of a block's first row, by the tables of the batch; -1 where
// no span has it.
int position_of(std::int64_t block, const RaggedBatch& batch) {
  for (const RaggedSpan& span : batch.spans)
    for (std::size_t i = 0; i < span.blocks.size(); ++i)
      if (span.blocks[i] == block) return static_cast<int>(i) * kBlockTokens;
  return -1;
}

// The pool of rows at positions [begin, end) after the step. Where the step
// has nothing for it, it is as it was.
array append_side(const array& pool, const array& rows, int begin, int end,
                  const std::optional<cpu::RowFormat>& format,
                  const RaggedBatchPtr& batch) {
  std::vector<RowCopy> copies;
  for (const RowCopy& c : batch->copies) {
    const int position = position_of(c.to_row / kBlockTokens, *batch);
    if (position < 0 || (position >= begin && position < end))
      copies.push_back(c);
  }
  const bool any = std::any_of(
      batch->spans.begin(), batch->spans.end(), [&](const RaggedSpan& s) {
        return s.row_count > 0 && s.start < end && s.length_after() > begin;
      });
  if (!any && copies.empty()) return pool;
  StateAppendTask task{.pool = nullptr,
                       .pool_row_bytes = static_cast<std::int64_t>(
                           pool.shape(1) * pool.itemsize()),
                       .rows = {},
                       .format = format,
                       .begin = begin,
                       .end = end,
                       .copies = std::move(copies),
                       .batch = batch};
  return array(pool.shape(), pool.dtype(),
               std::make_shared<StateAppend>(std::move(task)), {pool, rows});
}

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

StateRows append(const StateRows& state, const array& rows,
                 const RaggedBatchPtr& batch) {
  if (!state.quantized) {
    StateRows next = state;
    next.plain = append(state.plain, rows, batch);
    return next;
  }
  fault_point(FaultStage::build);
  check_shapes(state.plain, rows, *batch);
  cpu::check_state(state, rows.shape(1) / std::max(1, state.dim), rows.dtype(),
                   "append");
  check_places(state.plain.shape(0), *batch);
  check_cover("append", *batch, rows.shape(0));
  if (!cpu::on_cpu())
    throw std::runtime_error("[append] runs on the CPU only in this build");
  const int from = state.quantized_from;
  StateRows next = state;
  next.plain = append_side(state.plain, rows, 0, from, {}, batch);
  next.quantized = append_side(
      *state.quantized, rows, from, std::numeric_limits<int>::max(),
      cpu::row_format(rows.shape(1), rows.dtype(), state.codec), batch);
  return next;
}

}  // namespace reprise::kernels
