#include "kernels/cpu/attention_operands.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include <algorithm>
#include <stdexcept>

#include "base/limits.h"
#include "kernels/batch_checks.h"
#include "kernels/cpu/host_primitive.h"

namespace reprise::kernels::cpu {
namespace {

bool same_rows(const StatePart& a, const StatePart& b) {
  return a.plain == b.plain && a.quantized == b.quantized && a.dim == b.dim &&
         a.plain_row_bytes == b.plain_row_bytes &&
         a.quantized_from == b.quantized_from;
}

void check_shapes(const array& q, const std::vector<StateRows>& keys,
                  const StateRows& values, const AttentionShape& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.head_dim < 1 || s.value_dim < 0 ||
      s.heads % s.kv_heads != 0)
    throw std::invalid_argument(fmt::format(
        "[attention] {} heads over {} heads of keys of size {}, values of {}",
        s.heads, s.kv_heads, s.head_dim, s.values()));
  if (s.window < 0 || s.softcap < 0)
    throw std::invalid_argument(fmt::format(
        "[attention] a window of {}, a softcap of {}", s.window, s.softcap));
  if (keys.empty() || keys.size() > 2)
    throw std::invalid_argument(
        fmt::format("[attention] keys of {} parts; 1 or 2", keys.size()));
  int dim = 0;
  for (const StateRows& part : keys) dim += part.dim;
  if (dim != s.head_dim || values.dim != s.values())
    throw std::invalid_argument(fmt::format(
        "[attention] keys of {} and values of {} for heads of {} and {}", dim,
        values.dim, s.head_dim, s.values()));
  if (q.ndim() != 2 || q.shape(1) != s.heads * s.head_dim)
    throw std::invalid_argument(
        fmt::format("[attention] queries must have {} columns; they have {}",
                    s.heads * s.head_dim, q.shape(-1)));
  element_type(q.dtype(), "attention");
  for (const StateRows& part : keys)
    check_state(part, s.kv_heads, q.dtype(), "attention");
  check_state(values, s.kv_heads, q.dtype(), "attention");
  for (const StateRows& part : keys)
    if (part.plain.shape(0) != values.plain.shape(0))
      throw std::invalid_argument(
          fmt::format("[attention] pools of {} and {} rows",
                      part.plain.shape(0), values.plain.shape(0)));
}

void check_spans(const RaggedBatch& batch, int tokens, int pool_rows,
                 int window) {
  check_cover("attention", batch, tokens);
  for (const RaggedSpan& span : batch.spans) {
    const int first = window > 0 ? std::max(0, span.start - window + 1) : 0;
    if (span.row_count > 0)
      check_blocks("attention", span, first, pool_rows / kBlockTokens);
  }
}

}  // namespace

void check_attention(const array& q, const std::vector<StateRows>& keys,
                     const StateRows& values, const std::optional<array>& sinks,
                     const RaggedBatch& batch, const AttentionShape& shape) {
  check_shapes(q, keys, values, shape);
  if (sinks && sinks->shape() != mlx::core::Shape{shape.heads})
    throw std::invalid_argument(fmt::format("[attention] {} sinks for {} heads",
                                            sinks->size(), shape.heads));
  check_spans(batch, q.shape(0), values.plain.shape(0), shape.window);
}

AttentionOperands::AttentionOperands(const array& q,
                                     const std::vector<StateRows>& keys,
                                     const StateRows& values,
                                     const std::optional<array>& sinks,
                                     const AttentionShape& shape,
                                     std::vector<array>& inputs)
    : shape_(shape), q_(static_cast<int>(inputs.size())) {
  inputs.push_back(q);
  for (const StateRows& part : keys) keys_.emplace_back(part, inputs);
  values_.emplace_back(values, inputs);
  if (!sinks) return;
  sinks_ = static_cast<int>(inputs.size());
  inputs.push_back(mlx::core::astype(*sinks, mlx::core::float32));
}

AttentionTask AttentionOperands::bind(const std::vector<array>& inputs,
                                      const mlx::core::Stream& stream) const {
  const array& q = inputs[q_];
  AttentionTask task;
  task.type = element_type(q.dtype(), "attention");
  task.heads = shape_.heads;
  task.kv_heads = shape_.kv_heads;
  task.key_dim = shape_.head_dim;
  task.value_dim = shape_.values();
  task.scale = shape_.scale;
  task.window = shape_.window;
  task.softcap = shape_.softcap;
  task.key_parts = static_cast<int>(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i)
    task.keys[i] = keys_[i].bind(inputs);
  task.values = values_[0].bind(inputs);
  task.values_are_keys = same_rows(task.keys[0], task.values);
  const auto rows = row_view(q, stream);
  task.q = rows.data;
  task.q_row_bytes = rows.row_bytes;
  if (sinks_ >= 0)
    task.sinks =
        reinterpret_cast<const float*>(row_view(inputs[sinks_], stream).data);
  lay_out(task);
  return task;
}

}  // namespace reprise::kernels::cpu
