#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/ops.h>
#include <mlx/primitives.h>

#include <cstring>
#include <stdexcept>

#include "base/limits.h"
#include "kernels/batch_checks.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/index_rows.h"
#include "kernels/fault.h"
#include "kernels/sparse_attention.h"

namespace reprise::kernels {
namespace {

// Two outputs, both written in place: one without the other would be state of
// two different steps.
class PoolIndex : public mlx::core::Primitive {
 public:
  PoolIndex(RaggedBatchPtr batch, int pool, int dim)
      : Primitive(cpu::current_stream()),
        batch_(std::move(batch)),
        pool_(pool),
        dim_(dim) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    fault_point(FaultStage::eval);
    for (int i : {0, 1}) {
      if (!inputs[i].flags().row_contiguous)
        throw std::runtime_error("[pool_index] a pool is not row-contiguous");
      outputs[i].copy_shared_buffer(inputs[i]);
    }
    const auto keys = cpu::row_view(inputs[2], stream());
    const auto gates = cpu::row_view(inputs[3], stream());
    const auto ape = cpu::row_view(inputs[4], stream());
    const cpu::IndexRows rows = {
        .pooling = {.type = cpu::element_type(inputs[0].dtype(), "pool_index"),
                    .pool = pool_,
                    .dim = dim_,
                    .ape = reinterpret_cast<const float*>(ape.data)},
        .pooled = outputs[0].data<char>(),
        .partial = outputs[1].data<char>(),
        .keys = keys,
        .gates = gates,
        .row_bytes = static_cast<std::int64_t>(dim_ * inputs[0].itemsize())};
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [rows, batch = batch_] {
          fault_point(FaultStage::task);
          cpu::write_index_rows(rows, *batch);
        });
  }

  void eval_gpu(const std::vector<array>&, std::vector<array>&) override {
    throw std::runtime_error("[pool_index] runs on the CPU only");
  }

  const char* name() const override { return "PoolIndex"; }

 private:
  const RaggedBatchPtr batch_;
  const int pool_, dim_;
};

void check_shapes(const IndexPools& pools, const array& keys,
                  const array& gates, const array& ape) {
  if (ape.ndim() != 2 || ape.shape(0) < 1 || kBlockTokens % ape.shape(0) != 0)
    throw std::invalid_argument(fmt::format(
        "[pool_index] ape must be [pool, dim], pool a divisor of {}",
        kBlockTokens));
  const int pool = ape.shape(0), dim = ape.shape(1);
  const int partial = (pool - 1) * 2 * dim;
  if (keys.ndim() != 2 || keys.shape(1) != dim || gates.shape() != keys.shape())
    throw std::invalid_argument(fmt::format(
        "[pool_index] keys and gates must be [tokens, {}]; they have {} and "
        "{} columns",
        dim, keys.shape(-1), gates.shape(-1)));
  if (pools.pooled.ndim() != 2 || pools.pooled.shape(1) != dim ||
      pools.partial.ndim() != 2 || pools.partial.shape(1) != partial)
    throw std::invalid_argument(fmt::format(
        "[pool_index] pooled rows must have {} columns, slots {}; they have "
        "{} and {}",
        dim, partial, pools.pooled.shape(-1), pools.partial.shape(-1)));
  for (const array* a : {&gates, &pools.pooled, &pools.partial})
    if (a->dtype() != keys.dtype())
      throw std::invalid_argument(
          "[pool_index] keys, gates and both pools must have one dtype");
  cpu::element_type(keys.dtype(), "pool_index");
}

void check_span(const RaggedSpan& span, int pool, std::int64_t pooled_rows) {
  check_blocks("pool_index", span, span.start,
               pooled_rows / (kBlockTokens / pool));
  if (span.start % pool != 0 && span.slot_from < 0)
    throw std::invalid_argument(fmt::format(
        "[pool_index] position {} is inside a pool of {} tokens, and there is "
        "no slot with its beginning",
        span.start, pool));
}

void check_batch(const RaggedBatch& batch, int tokens, int pool, int slots,
                 std::int64_t pooled_rows) {
  check_cover("pool_index", batch, tokens);
  check_slots("pool_index", batch, slots);
  for (const RaggedSpan& span : batch.spans)
    if (span.row_count > 0) check_span(span, pool, pooled_rows);
  for (const RowCopy& c : batch.copies) {
    const std::int64_t rows = pooled_rows * pool;
    if (c.rows < 0 || c.from_row < 0 || c.to_row < 0 ||
        c.from_row % pool != 0 || c.to_row % pool != 0 ||
        c.from_row > rows - c.rows || c.to_row > rows - c.rows)
      throw std::invalid_argument(fmt::format(
          "[pool_index] a copy of {} rows from {} to {} does not fit pools of "
          "{} tokens",
          c.rows, c.from_row, c.to_row, pool));
  }
}

}  // namespace

IndexPools pool_index(const IndexPools& pools, const array& keys,
                      const array& gates, const array& ape,
                      const RaggedBatchPtr& batch) {
  fault_point(FaultStage::build);
  check_shapes(pools, keys, gates, ape);
  const int pool = ape.shape(0);
  check_batch(*batch, keys.shape(0), pool, pools.partial.shape(0),
              pools.pooled.shape(0));
  if (!cpu::on_cpu())
    throw std::runtime_error("[pool_index] runs on the CPU only in this build");
  auto outputs =
      array::make_arrays({pools.pooled.shape(), pools.partial.shape()},
                         {pools.pooled.dtype(), pools.partial.dtype()},
                         std::make_shared<PoolIndex>(batch, pool, ape.shape(1)),
                         {pools.pooled, pools.partial, keys, gates,
                          mlx::core::astype(ape, mlx::core::float32)});
  return {outputs[0], outputs[1]};
}

}  // namespace reprise::kernels
