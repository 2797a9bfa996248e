#include "kernels/hyper.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/cpu/host_primitive.h"
#include "kernels/cpu/row_operation.h"
#include "kernels/plain.h"
#include "kernels/weight_matrix.h"

namespace reprise::kernels {
namespace {

namespace mx = mlx::core;

int mix_size(int streams) {
  return streams * (2 + streams);
}

// The D of `count` streams.
int check_streams(const char* op, const array& streams, int count) {
  if (count < 1 || count > cpu::kHyperStreams)
    throw std::invalid_argument(
        fmt::format("[{}] {} streams; 1 to {} are "
                    "possible",
                    op, count, cpu::kHyperStreams));
  if (streams.ndim() != 2 || streams.shape(1) == 0 ||
      streams.shape(1) % count != 0 || !is_float(streams.dtype()))
    throw std::invalid_argument(fmt::format(
        "[{}] streams must be float32, bfloat16 or float16 rows of {} equal "
        "parts",
        op, count));
  return streams.shape(1) / count;
}

void check_weights(const array& streams, const HyperWeights& w) {
  const int size = mix_size(w.streams);
  if (w.fn.shape() != mx::Shape{size, streams.shape(1)} ||
      w.base.shape() != mx::Shape{size} || w.scale.shape() != mx::Shape{3} ||
      w.base.dtype() != mx::float32 || w.scale.dtype() != mx::float32)
    throw std::invalid_argument(fmt::format(
        "[hyper_in] fn must be [{0}, {1}], base float32 [{0}] and scale "
        "float32 [3]",
        size, streams.shape(1)));
  if (w.iterations < 1)
    throw std::invalid_argument(fmt::format(
        "[hyper_in] {} iterations; at least one is needed", w.iterations));
}

// The S whose mix has this size, or 0.
int streams_of(int size) {
  for (int s = 1; s <= cpu::kHyperStreams; ++s)
    if (mix_size(s) == size) return s;
  return 0;
}

}  // namespace

HyperInput hyper_in(const array& streams, const HyperWeights& w) {
  const int dim = check_streams("hyper_in", streams, w.streams);
  check_weights(streams, w);
  if (!cpu::on_cpu()) return plain::hyper_in(streams, w);
  const auto product = matmul(streams, w.fn, mx::float32);
  const auto mix =
      cpu::row_operation(cpu::kHyperMix,
                         {.eps = w.eps,
                          .head_dim = dim,
                          .terms = w.streams,
                          .mix_eps = w.mix_eps,
                          .iterations = w.iterations},
                         {streams, product, w.base, w.scale},
                         {streams.shape(0), mix_size(w.streams), mx::float32});
  return {
      cpu::row_operation(cpu::kHyperIn, {.terms = w.streams}, {streams, mix},
                         {streams.shape(0), dim, streams.dtype()}),
      mix};
}

array hyper_out(const array& streams, const array& y, const array& mix) {
  const int count = mix.ndim() == 2 ? streams_of(mix.shape(1)) : 0;
  const int dim = check_streams("hyper_out", streams, count);
  if (mix.shape(0) != streams.shape(0) || mix.dtype() != mx::float32 ||
      y.shape() != mx::Shape{streams.shape(0), dim} ||
      y.dtype() != streams.dtype())
    throw std::invalid_argument(fmt::format(
        "[hyper_out] y must be [{0}, {1}] in the streams' dtype, and the mix "
        "float32 [{0}, {2}]",
        streams.shape(0), dim, mix_size(count)));
  if (!cpu::on_cpu()) return plain::hyper_out(streams, y, mix);
  return cpu::row_operation(cpu::kHyperOut, {.head_dim = dim, .terms = count},
                            {streams, y, mix});
}

array hyper_mean(const array& streams, int count) {
  const int dim = check_streams("hyper_mean", streams, count);
  if (!cpu::on_cpu()) return plain::hyper_mean(streams, count);
  return cpu::row_operation(cpu::kHyperMean, {.terms = count}, {streams},
                            {streams.shape(0), dim, streams.dtype()});
}

}  // namespace reprise::kernels
