#include "kernels/cpu/state_operand.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/limits.h"
#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_codec_task.h"

namespace reprise::kernels::cpu {
namespace {

using mlx::core::array;

const char* data_of(const array& pool) {
  if (!pool.flags().row_contiguous)
    throw std::runtime_error("[state] a pool is not row-contiguous");
  return pool.data<char>();
}

void check_quantized(const StateRows& s, int heads, const char* op) {
  const array& pool = *s.quantized;
  if (!can_quantize(heads, s.dim, s.codec))
    throw std::invalid_argument(fmt::format(
        "[{}] rows of {} heads of {} cannot be quantized to {} bits in groups "
        "of {}; keep them plain",
        op, heads, s.dim, s.codec.bits, s.codec.group_size));
  const auto bytes =
      quantized_row_bytes(heads * s.dim, s.plain.dtype(), s.codec);
  if (pool.dtype() != mlx::core::uint8 || pool.ndim() != 2 ||
      pool.shape(0) != s.plain.shape(0) || pool.shape(1) != bytes)
    throw std::invalid_argument(
        fmt::format("[{}] a quantized pool must be uint8 [{}, {}]", op,
                    s.plain.shape(0), bytes));
  if (s.quantized_from < 0 || s.quantized_from % kBlockTokens != 0)
    throw std::invalid_argument(
        fmt::format("[{}] rows are quantized from position {} on, which is no "
                    "multiple of {}",
                    op, s.quantized_from, kBlockTokens));
}

}  // namespace

RowFormat row_format(int width, mlx::core::Dtype dtype, const RowCodec& codec) {
  RowFormat format;
  format.type = element_type(dtype, "state");
  format.width = width;
  format.bits = codec.bits;
  format.group_size = codec.group_size;
  format.words_bytes = width * codec.bits / 8;
  format.groups = width / codec.group_size;
  format.row_bytes = format.words_bytes + std::int64_t{2} * format.groups *
                                              mlx::core::size_of(dtype);
  return format;
}

void quantize(const RowFormat& format, const char* row, char* out) {
  REPRISE_PICK_ISA(quantize_row)(format, row, out);
}

void check_state(const StateRows& s, int heads, mlx::core::Dtype dtype,
                 const char* op) {
  if (s.dim < 1 || s.plain.ndim() != 2 || s.plain.shape(1) != heads * s.dim)
    throw std::invalid_argument(
        fmt::format("[{}] a pool must have {} columns, {} heads of {}; it has "
                    "{}",
                    op, heads * s.dim, heads, s.dim, s.plain.shape(-1)));
  if (s.plain.dtype() != dtype)
    throw std::invalid_argument(fmt::format(
        "[{}] state and activations must have one dtype; use astype first",
        op));
  if (s.quantized) check_quantized(s, heads, op);
}

StateOperand::StateOperand(const StateRows& state, std::vector<array>& inputs)
    : plain_(static_cast<int>(inputs.size())) {
  inputs.push_back(state.plain);
  part_.dim = state.dim;
  part_.plain_row_bytes =
      static_cast<std::int64_t>(state.plain.shape(1) * state.plain.itemsize());
  if (!state.quantized) return;
  quantized_ = static_cast<int>(inputs.size());
  inputs.push_back(*state.quantized);
  part_.format =
      row_format(state.plain.shape(1), state.plain.dtype(), state.codec);
  part_.quantized_from = state.quantized_from;
}

StatePart StateOperand::bind(const std::vector<array>& inputs) const {
  StatePart part = part_;
  part.plain = data_of(inputs[plain_]);
  if (quantized_ >= 0) part.quantized = data_of(inputs[quantized_]);
  return part;
}

}  // namespace reprise::kernels::cpu

namespace reprise::kernels {

bool can_quantize(int heads, int dim, const RowCodec& codec) {
  const int g = codec.group_size;
  return (codec.bits == 4 || codec.bits == 8) &&
         (g == 32 || g == 64 || g == 128) && heads > 0 && dim > 0 &&
         dim % 16 == 0 && heads * dim % g == 0;
}

std::int64_t quantized_row_bytes(int width, mlx::core::Dtype dtype,
                                 const RowCodec& codec) {
  return cpu::row_format(width, dtype, codec).row_bytes;
}

}  // namespace reprise::kernels
