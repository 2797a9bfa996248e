#include <mlx/ops.h>

#include "kernels/plain.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

array wide(const array& x) {
  return mx::astype(x, mx::float32);
}

// x as float32 [T, count, D].
array apart(const array& x, int count) {
  return mx::reshape(wide(x), {x.shape(0), count, x.shape(1) / count});
}

array columns(const array& x, int begin, int end) {
  return mx::slice(x, {0, begin}, {x.shape(0), end});
}

// m's columns [begin, end) times a scale plus their base.
array logits(const array& m, const HyperWeights& w, int part, int begin,
             int end) {
  const auto scale = mx::slice(w.scale, {part}, {part + 1});
  const auto base = mx::slice(w.base, {begin}, {end});
  return mx::add(mx::multiply(columns(m, begin, end), scale), base);
}

array balanced(const array& c, int axis, float eps) {
  return mx::divide(c, mx::add(mx::sum(c, axis, true), array(eps)));
}

}  // namespace

HyperInput hyper_in(const array& streams, const HyperWeights& w) {
  const int s = w.streams, tokens = streams.shape(0);
  const auto x = wide(streams);
  const auto mean = mx::mean(mx::square(x), -1, true);
  const auto normed = mx::multiply(x, mx::rsqrt(mx::add(mean, array(w.eps))));
  const auto m = mx::matmul(normed, mx::transpose(wide(w.fn)));
  const auto pre =
      mx::add(mx::sigmoid(logits(m, w, 0, 0, s)), array(w.mix_eps));
  const auto post =
      mx::multiply(array(2.0f), mx::sigmoid(logits(m, w, 1, s, 2 * s)));
  const auto c_logits =
      mx::reshape(logits(m, w, 2, 2 * s, s * (2 + s)), {tokens, s, s});
  auto c = mx::add(mx::softmax(c_logits, -1), array(w.mix_eps));
  c = balanced(c, 1, w.mix_eps);
  for (int i = 1; i < w.iterations; ++i)
    c = balanced(balanced(c, 2, w.mix_eps), 1, w.mix_eps);
  const auto sum =
      mx::sum(mx::multiply(apart(streams, s), mx::expand_dims(pre, 2)), 1);
  return {mx::astype(sum, streams.dtype()),
          mx::concatenate({pre, post, mx::reshape(c, {tokens, s * s})}, 1)};
}

array hyper_out(const array& streams, const array& y, const array& mix) {
  const int tokens = streams.shape(0);
  const int s = streams.shape(1) / y.shape(1);
  const auto post = mx::expand_dims(columns(mix, s, 2 * s), 2);
  const auto c = mx::reshape(columns(mix, 2 * s, s * (2 + s)), {tokens, s, s});
  const auto mixed = mx::matmul(mx::swapaxes(c, 1, 2), apart(streams, s));
  const auto added = mx::multiply(post, mx::expand_dims(wide(y), 1));
  return mx::astype(mx::reshape(mx::add(added, mixed), streams.shape()),
                    streams.dtype());
}

array hyper_mean(const array& streams, int count) {
  return mx::astype(mx::mean(apart(streams, count), 1), streams.dtype());
}

}  // namespace reprise::kernels::plain
