#include "kernels/attention_testing.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/limits.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/test_support.h"

namespace reprise::kernels::test_support {
namespace {

namespace mx = mlx::core;
using mx::array;

std::vector<float> rounded(std::vector<float> values, mx::Dtype dtype) {
  const int count = int(values.size());
  return values_of(make_array(values, {count}, dtype));
}

// By MLX's own quantization, dequantized in float32.
std::vector<float> quantized(const std::vector<float>& rows, int width,
                             mx::Dtype dtype, const RowCodec& codec) {
  const auto a = make_array(rows, {int(rows.size()) / width, width}, dtype);
  const auto q = mx::quantize(a, codec.group_size, codec.bits);
  return values_of(mx::dequantize(q[0], mx::astype(q[1], mx::float32),
                                  mx::astype(q[2], mx::float32),
                                  codec.group_size, codec.bits));
}

}  // namespace

AttentionSequence::AttentionSequence(const AttentionKind& kind, int length,
                                     std::uint64_t seed, int first_block)
    : kind_(kind), length_(length) {
  q_ = random_floats(std::size_t(length) * kind.q_row(), seed);
  for (float& x : q_) x *= 4.0f;  // so that weights are far from equal
  q_ = rounded(q_, kind.dtype);
  for (int dim : kind.key_parts) families_.push_back(make_family(dim, ++seed));
  if (!kind.latent)
    families_.push_back(make_family(kind.shape.values(), ++seed));
  else
    std::rotate(families_.begin(), families_.begin() + 1, families_.end());
  if (kind.sinks) sinks_ = random_floats(kind.shape.heads, ++seed);
  for (float& x : sinks_) x *= 2.0f;
  const int count = (length + kBlockTokens - 1) / kBlockTokens;
  for (int i = 0; i < count; ++i)
    blocks_.push_back(first_block + 2 * (count - 1 - i));
}

AttentionSequence::Family AttentionSequence::make_family(
    int dim, std::uint64_t seed) const {
  const int width = kind_.shape.kv_heads * dim;
  Family f;
  f.dim = dim;
  f.rows =
      rounded(random_floats(std::size_t(length_) * width, seed), kind_.dtype);
  f.stored = f.rows;
  if (!kind_.codec || !can_quantize(kind_.shape.kv_heads, dim, *kind_.codec))
    return f;
  const auto q = quantized(f.rows, width, kind_.dtype, *kind_.codec);
  const std::size_t from = std::size_t(kind_.quantized_from) * width;
  for (std::size_t i = from; i < q.size(); ++i) f.stored[i] = q[i];
  return f;
}

array AttentionSequence::rows_of(const Family& f, int start, int count) const {
  const int width = kind_.shape.kv_heads * f.dim;
  const auto begin = f.rows.begin() + std::ptrdiff_t(start) * width;
  return make_array({begin, begin + std::ptrdiff_t(count) * width},
                    {count, width}, kind_.dtype);
}

array AttentionSequence::queries(int start, int count) const {
  const auto begin = q_.begin() + std::ptrdiff_t(start) * kind_.q_row();
  return make_array({begin, begin + std::ptrdiff_t(count) * kind_.q_row()},
                    {count, kind_.q_row()}, kind_.dtype);
}

std::optional<array> AttentionSequence::sinks() const {
  if (!kind_.sinks) return std::nullopt;
  return make_array(sinks_, {kind_.shape.heads});
}

int AttentionSequence::first_needed(int start) const {
  const int w = kind_.shape.window;
  return w > 0 ? std::max(0, start - w + 1) : 0;
}

std::vector<std::int32_t> AttentionSequence::table(int start) const {
  auto blocks = blocks_;
  for (int i = 0; i < first_needed(start) / kBlockTokens; ++i) blocks[i] = -1;
  return blocks;
}

int AttentionSequence::blocks_end() const {
  return *std::max_element(blocks_.begin(), blocks_.end()) + 2;
}

// Every byte 255: no number in any floating type, as a scale either.
StateRows AttentionSequence::empty_rows(const Family& f, int blocks) const {
  const int width = kind_.shape.kv_heads * f.dim, rows = blocks * kBlockTokens;
  StateRows state{
      .plain = make_array(
          std::vector<float>(std::size_t(rows) * width,
                             std::numeric_limits<float>::quiet_NaN()),
          {rows, width}, kind_.dtype),
      .dim = f.dim};
  if (!kind_.codec || !can_quantize(kind_.shape.kv_heads, f.dim, *kind_.codec))
    return state;
  const int bytes = int(quantized_row_bytes(width, kind_.dtype, *kind_.codec));
  state.quantized = mx::full({rows, bytes}, 255, mx::uint8);
  state.quantized->eval();
  state.codec = *kind_.codec;
  state.quantized_from = kind_.quantized_from;
  return state;
}

AttentionSequence::State AttentionSequence::empty_state(int blocks) const {
  State state;
  if (kind_.latent) {
    state.keys.push_back(empty_rows(families_.back(), blocks));
    for (std::size_t i = 0; i + 1 < families_.size(); ++i)
      state.keys.push_back(empty_rows(families_[i], blocks));
    return state;
  }
  for (std::size_t i = 0; i + 1 < families_.size(); ++i)
    state.keys.push_back(empty_rows(families_[i], blocks));
  state.values.push_back(empty_rows(families_.back(), blocks));
  return state;
}

AttentionSequence::State AttentionSequence::append_to(const State& state,
                                                      int start,
                                                      int count) const {
  const auto batch = one_span(start, count, blocks_);
  State next;
  for (std::size_t i = 0; i < state.keys.size(); ++i) {
    const Family& f = !kind_.latent ? families_[i]
                      : i == 0      ? families_.back()
                                    : families_[i - 1];
    next.keys.push_back(append(state.keys[i], rows_of(f, start, count), batch));
  }
  for (const StateRows& rows : state.values)
    next.values.push_back(
        append(rows, rows_of(value_family(), start, count), batch));
  return next;
}

AttentionSequence::State AttentionSequence::state_of(int start,
                                                     int count) const {
  State state = empty_state(blocks_end());
  const int first = first_needed(start);
  if (first < start) state = append_to(state, first, start - first);
  return append_to(state, start, count);
}

array AttentionSequence::attend(int start, int count) const {
  const State state = state_of(start, count);
  return attention(queries(start, count), state.keys, state.value_rows(),
                   one_span(start, count, table(start)), kind_.shape, sinks());
}

array AttentionSequence::attend_plain(int start, int count) const {
  const State state = state_of(start, count);
  return plain::attention(queries(start, count), state.keys, state.value_rows(),
                          one_span(start, count, table(start)), kind_.shape,
                          sinks());
}

AttentionSequence::Exact AttentionSequence::exact_row(int p) const {
  std::vector<int> positions(p + 1 - first_needed(p));
  std::iota(positions.begin(), positions.end(), first_needed(p));
  return exact_over(p, positions);
}

// Each score errs by a rounding of its absolute products for each dimension
// and three more (and a cap by its tanh), hence weights by twice that and an
// exp of 2 ulp; sums of positions by one rounding each, with one for each
// tile's rescaling. A quantized element of [-1, 1) is scale * field + bias,
// whose product may be 2 and be rounded.
AttentionSequence::Exact AttentionSequence::exact_over(
    int p, const std::vector<int>& positions) const {
  constexpr double kEps = 0x1p-24;
  const auto& h = kind_.shape;
  const double element_error = kind_.codec ? 2 * kEps : 0;
  // Parts of a key in their order.
  std::vector<const Family*> parts;
  if (kind_.latent) parts.push_back(&families_.back());
  for (std::size_t i = 0; i + 1 < families_.size(); ++i)
    parts.push_back(&families_[i]);
  Exact e;
  for (int head = 0; head < h.heads; ++head) {
    const int kv = head / (h.heads / h.kv_heads);
    std::vector<double> scores;
    double score_error = 0;
    for (int j : positions) {
      double score = 0, size = 0, error = 0;
      int at = p * kind_.q_row() + head * h.head_dim;
      for (const Family* f : parts)
        for (int d = 0; d < f->dim; ++d) {
          const double term =
              double(q_[at++]) *
              f->stored[(std::size_t(j) * h.kv_heads + kv) * f->dim + d];
          score += term;
          size += std::abs(term);
          error += std::abs(q_[at - 1]) * element_error;
        }
      score *= h.scale;
      error = (error + size * (h.head_dim + 3) * kEps) * std::abs(h.scale);
      if (h.softcap > 0) {
        score = h.softcap * std::tanh(score / h.softcap);
        error += 8 * h.softcap * kEps;
      }
      scores.push_back(score);
      score_error = std::max(score_error, error);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = kind_.sinks ? std::exp(sinks_[head] - top) : 0;
    for (double& x : scores) sum += x = std::exp(x - top);
    const int seen = static_cast<int>(positions.size());
    const double relative =
        2 * score_error + (seen + 2 * (seen / 64 + 2) + 10) * kEps;
    const Family& v = value_family();
    for (int d = 0; d < v.dim; ++d) {
      double value = 0, size = 0;
      for (int i = 0; i < seen; ++i) {
        const double x =
            v.stored[(std::size_t(positions[i]) * h.kv_heads + kv) * v.dim + d];
        value += scores[i] / sum * x;
        size += scores[i] / sum * std::abs(x);
      }
      e.out.push_back(value);
      // Numerator and denominator each err by `relative`.
      e.bound.push_back(2 * relative * size + element_error);
    }
  }
  return e;
}

}  // namespace reprise::kernels::test_support
