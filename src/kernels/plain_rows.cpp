#include <mlx/ops.h>

#include <cmath>
#include <numbers>

#include "kernels/plain.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

array wide(const array& x) {
  return mx::astype(x, mx::float32);
}

// x as float32 [rows, heads, head_dim].
array heads_of(const array& x, int head_dim) {
  return mx::reshape(wide(x), {x.shape(0), x.shape(1) / head_dim, head_dim});
}

// Back to the shape and dtype of x.
array like(const array& x, const array& heads) {
  return mx::astype(mx::reshape(heads, x.shape()), x.dtype());
}

array over_rms(const array& heads, float eps) {
  const auto mean = mx::mean(mx::square(heads), -1, /* keepdims= */ true);
  return mx::multiply(heads, mx::rsqrt(mx::add(mean, array(eps))));
}

array silu(const array& x) {
  return mx::multiply(x, mx::sigmoid(x));
}

}  // namespace

array rms_norm(const array& x, const array& weight, float eps) {
  const auto heads = heads_of(x, weight.shape(0));
  return like(x, mx::multiply(over_rms(heads, eps), wide(weight)));
}

array unweighted_rms_norm(const array& x, int head_dim, float eps) {
  return like(x, over_rms(heads_of(x, head_dim), eps));
}

array gated_rms_norm(const array& x, const array& weight, const array& gate,
                     float eps) {
  const int head_dim = weight.shape(0);
  const auto normed =
      mx::multiply(over_rms(heads_of(x, head_dim), eps), wide(weight));
  return like(x, mx::multiply(normed, mx::sigmoid(heads_of(gate, head_dim))));
}

array layer_norm(const array& x, const array& weight, const array& bias,
                 float eps) {
  const auto heads = heads_of(x, weight.shape(0));
  const auto centred = mx::subtract(heads, mx::mean(heads, -1, true));
  const auto variance = mx::mean(mx::square(centred), -1, true);
  const auto scaled =
      mx::multiply(centred, mx::rsqrt(mx::add(variance, array(eps))));
  return like(x, mx::add(mx::multiply(scaled, wide(weight)), wide(bias)));
}

array l2_norm(const array& x, int head_dim, float eps, float factor) {
  const auto heads = heads_of(x, head_dim);
  const auto squares = mx::sum(mx::square(heads), -1, true);
  const auto inverse =
      mx::multiply(mx::rsqrt(mx::add(squares, array(eps))), array(factor));
  return like(x, mx::multiply(heads, inverse));
}

array swiglu(const array& gate, const array& up) {
  return mx::astype(mx::multiply(silu(wide(gate)), wide(up)), gate.dtype());
}

array swiglu(const array& gate, const array& up, float limit) {
  const auto g = mx::minimum(wide(gate), array(limit));
  const auto u = mx::clip(wide(up), array(-limit), array(limit));
  return mx::astype(mx::multiply(silu(g), u), gate.dtype());
}

array geglu(const array& gate, const array& up) {
  const auto g = wide(gate);
  const auto cube = mx::multiply(mx::multiply(g, g), g);
  const auto inner =
      mx::multiply(array(std::sqrt(2.0f / std::numbers::pi_v<float>)),
                   mx::add(g, mx::multiply(array(0.044715f), cube)));
  const auto gelu = mx::multiply(mx::multiply(array(0.5f), g),
                                 mx::add(array(1.0f), mx::tanh(inner)));
  return mx::astype(mx::multiply(gelu, wide(up)), gate.dtype());
}

array sigmoid_gate(const array& x, const array& gate) {
  return mx::astype(mx::multiply(wide(x), mx::sigmoid(wide(gate))), x.dtype());
}

array sigmoid(const array& x) {
  return mx::astype(mx::sigmoid(wide(x)), x.dtype());
}

array scale(const array& x, float factor) {
  return mx::astype(mx::multiply(wide(x), array(factor)), x.dtype());
}

array softcap(const array& x, float cap) {
  const auto inner = mx::tanh(mx::divide(wide(x), array(cap)));
  return mx::astype(mx::multiply(array(cap), inner), x.dtype());
}

}  // namespace reprise::kernels::plain
