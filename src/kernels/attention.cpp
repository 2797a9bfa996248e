#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/array.h>
#include <mlx/backend/cpu/encoder.h>

#include <stdexcept>

#include "base/limits.h"
#include "kernels/cpu/attention_run.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/ops.h"
#include "kernels/plain.h"

namespace reprise::kernels {
namespace {

class Attention : public cpu::HostPrimitive {
 public:
  Attention(RaggedBatchPtr batch, const AttentionShape& shape)
      : batch_(std::move(batch)), shape_(shape) {}

  void eval_cpu(const std::vector<array>& inputs, array& out) override {
    const array& q = inputs[0];
    const array& keys = inputs[1];
    const array& values = inputs[2];
    if (!keys.flags().row_contiguous || !values.flags().row_contiguous)
      throw std::runtime_error("[attention] a pool is not row-contiguous");
    out.set_data(mlx::core::allocator::malloc(out.nbytes()));
    const auto rows = cpu::row_view(q, stream());
    const cpu::AttentionTask task = {
        .q = rows.data,
        .q_row_bytes = rows.row_bytes,
        .keys = keys.data<char>(),
        .values = values.data<char>(),
        .out = out.data<char>(),
        .type = cpu::element_type(q.dtype(), "attention"),
        .heads = shape_.heads,
        .kv_heads = shape_.kv_heads,
        .head_dim = shape_.head_dim,
        .scale = shape_.scale};
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [task, batch = batch_] { cpu::run_attention(task, *batch); });
  }

  const char* name() const override { return "Attention"; }

 private:
  const RaggedBatchPtr batch_;
  const AttentionShape shape_;
};

void check_shapes(const array& q, const array& keys, const array& values,
                  const AttentionShape& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.head_dim < 1 ||
      s.heads % s.kv_heads != 0)
    throw std::invalid_argument(
        fmt::format("[attention] {} heads over {} heads of keys of size {}",
                    s.heads, s.kv_heads, s.head_dim));
  const int row = s.kv_heads * s.head_dim;
  if (q.ndim() != 2 || q.shape(1) != s.heads * s.head_dim || keys.ndim() != 2 ||
      keys.shape(1) != row || values.shape() != keys.shape())
    throw std::invalid_argument(fmt::format(
        "[attention] queries must have {} columns, keys and values {}; they "
        "have {}, {} and {}",
        s.heads * s.head_dim, row, q.shape(-1), keys.shape(-1),
        values.shape(-1)));
  if (q.dtype() != keys.dtype() || q.dtype() != values.dtype())
    throw std::invalid_argument(
        "[attention] queries, keys and values must have one dtype");
  cpu::element_type(q.dtype(), "attention");
}

void check_spans(const RaggedBatch& batch, int tokens, int pool_rows) {
  int covered = 0;
  for (const RaggedSpan& span : batch.spans) {
    if (span.first_row != covered || span.row_count < 0 || span.start < 0)
      throw std::invalid_argument(fmt::format(
          "[attention] a span of {} rows at position {} begins at row {} "
          "instead of {}",
          span.row_count, span.start, span.first_row, covered));
    covered += span.row_count;
    const auto need = static_cast<std::size_t>(
        (span.length_after() + kBlockTokens - 1) / kBlockTokens);
    if (span.row_count > 0 && span.blocks.size() < need)
      throw std::invalid_argument(
          fmt::format("[attention] {} blocks for a length of {}",
                      span.blocks.size(), span.length_after()));
    if (span.row_count == 0) continue;
    for (std::size_t i = 0; i < need; ++i)
      if (span.blocks[i] < 0 || span.blocks[i] >= pool_rows / kBlockTokens)
        throw std::invalid_argument(
            fmt::format("[attention] block {} is outside the pool of {} rows",
                        span.blocks[i], pool_rows));
  }
  if (covered != tokens)
    throw std::invalid_argument(fmt::format(
        "[attention] {} query rows, but the spans cover {}", tokens, covered));
}

}  // namespace

array attention(const array& q, const array& keys, const array& values,
                const RaggedBatchPtr& batch, const AttentionShape& shape) {
  check_shapes(q, keys, values, shape);
  check_spans(*batch, q.shape(0), keys.shape(0));
  if (!cpu::on_cpu()) return plain::attention(q, keys, values, batch, shape);
  return array(q.shape(), q.dtype(), std::make_shared<Attention>(batch, shape),
               {q, keys, values});
}

}  // namespace reprise::kernels
