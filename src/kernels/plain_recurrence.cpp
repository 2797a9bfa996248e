#include <mlx/ops.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/plain.h"

namespace reprise::kernels::plain {
namespace {

namespace mx = mlx::core;

array wide(const array& x) {
  return mx::astype(x, mx::float32);
}

// Rows [begin, end) of x as float32 [heads, rows, dim].
array by_head(const array& x, int begin, int end, int heads) {
  const int dim = x.shape(1) / heads;
  const auto rows = mx::slice(wide(x), {begin, 0}, {end, x.shape(1)});
  return mx::transpose(mx::reshape(rows, {end - begin, heads, dim}), {1, 0, 2});
}

// [heads, rows, dim] back to [rows, heads * dim].
array by_row(const array& x) {
  const int heads = x.shape(0), rows = x.shape(1), dim = x.shape(2);
  return mx::reshape(mx::transpose(x, {1, 0, 2}), {rows, heads * dim});
}

// The inputs of some tokens, each [heads, tokens, ...] in float32.
struct Tokens {
  array q, k, v, log_decay, beta;

  Tokens(const DeltaInputs& in, int begin, int end, int heads)
      : q(by_head(in.q, begin, end, heads)),
        k(by_head(in.k, begin, end, heads)),
        v(by_head(in.v, begin, end, heads)),
        log_decay(by_head(in.log_decay, begin, end, heads)),
        beta(by_head(in.beta, begin, end, heads)) {}
};

array turned(const array& x) {
  return mx::swapaxes(x, -1, -2);
}

// The inverse of 1 + n for n strictly lower triangular [.., size, size]:
// (1 - n)(1 + n²)(1 + n⁴)..., which ends.
array inverse_of_one_plus(const array& n) {
  const int size = n.shape(-1);
  const auto one = mx::eye(size);
  auto power = mx::negative(n);
  auto inverse = mx::add(one, power);
  for (int reach = 2; reach < size; reach *= 2) {
    power = mx::matmul(power, power);
    inverse = mx::matmul(mx::add(one, power), inverse);
  }
  return inverse;
}

// e^(G_t - G_s) for s <= t (or s < t), otherwise 0: [heads, t, s, key_dim].
// The difference is taken first: e^-G alone would overflow.
array decay_between(const array& total, bool with_itself) {
  const int tokens = total.shape(1);
  const auto difference =
      mx::subtract(mx::expand_dims(total, 2), mx::expand_dims(total, 1));
  const auto mask =
      mx::reshape(mx::tril(mx::ones({tokens, tokens}), with_itself ? 0 : -1),
                  {1, tokens, tokens, 1});
  return mx::exp(mx::where(mx::greater(mask, array(0.0f)), difference,
                           array(-std::numeric_limits<float>::infinity())));
}

// Σ_d a_t[d] b_s[d] between[t, s, d]: [heads, t, s].
array products_between(const array& a, const array& b, const array& between) {
  return mx::sum(
      mx::multiply(mx::multiply(mx::expand_dims(a, 2), mx::expand_dims(b, 1)),
                   between),
      -1);
}

// One chunk: its result [heads, tokens, value_dim]; state goes on.
array delta_chunk(const Tokens& in, array& state) {
  const auto total = mx::cumsum(in.log_decay, 1);
  const auto since_start = mx::exp(total);
  const auto strict = products_between(in.k, in.k, decay_between(total, false));
  const auto upto = products_between(in.q, in.k, decay_between(total, true));
  const auto known = mx::matmul(mx::multiply(since_start, in.k), state);
  const auto delta =
      mx::matmul(inverse_of_one_plus(mx::multiply(in.beta, strict)),
                 mx::multiply(in.beta, mx::subtract(in.v, known)));
  const auto result =
      mx::add(mx::matmul(mx::multiply(since_start, in.q), state),
              mx::matmul(upto, delta));
  const int tokens = total.shape(1);
  const auto last = mx::slice(total, {0, tokens - 1, 0}, total.shape());
  const auto to_end = mx::exp(mx::subtract(last, total));
  state = mx::add(mx::multiply(turned(mx::exp(last)), state),
                  mx::matmul(turned(mx::multiply(to_end, in.k)), delta));
  return result;
}

// One token.
array delta_step(const Tokens& in, array& state) {
  state = mx::multiply(turned(mx::exp(in.log_decay)), state);
  const auto error = mx::subtract(in.v, mx::matmul(in.k, state));
  const auto delta = mx::multiply(in.beta, error);
  state = mx::add(state, mx::matmul(turned(in.k), delta));
  return mx::matmul(in.q, state);
}

}  // namespace

Carried short_conv(const array& x, const array& weight, const array& tail,
                   bool silu) {
  const int tokens = x.shape(0), taps = weight.shape(0);
  const auto all = mx::concatenate({tail, x}, 0);
  auto sum = mx::zeros(x.shape());
  for (int j = 0; j < taps; ++j) {
    const auto tap = mx::slice(wide(weight), {j, 0}, {j + 1, x.shape(1)});
    const auto rows = mx::slice(wide(all), {j, 0}, {j + tokens, x.shape(1)});
    sum = mx::add(sum, mx::multiply(tap, rows));
  }
  if (silu) sum = mx::multiply(sum, mx::sigmoid(sum));
  return {mx::astype(sum, x.dtype()),
          mx::slice(all, {tokens, 0}, {tokens + taps - 1, x.shape(1)})};
}

Carried gated_delta(const DeltaInputs& inputs, const array& state,
                    const DeltaShape& shape, int chunk) {
  const int tokens = inputs.q.shape(0);
  auto carried =
      mx::reshape(state, {shape.heads, shape.key_dim, shape.value_dim});
  std::vector<array> rows;
  for (int begin = 0; begin < tokens; begin += chunk) {
    const int end = std::min(tokens, begin + chunk);
    const Tokens some(inputs, begin, end, shape.heads);
    rows.push_back(by_row(chunk == 1 ? delta_step(some, carried)
                                     : delta_chunk(some, carried)));
  }
  return {mx::astype(mx::concatenate(rows, 0), inputs.v.dtype()),
          mx::reshape(carried, state.shape())};
}

array decay_gate(const array& x, const array& log_rate, const array& bias,
                 std::optional<float> lower_bound) {
  const int heads = log_rate.shape(0), dim = x.shape(1) / heads;
  const auto sum =
      mx::reshape(mx::add(wide(x), wide(bias)), {x.shape(0), heads, dim});
  const auto rate = mx::reshape(mx::exp(log_rate), {1, heads, 1});
  const auto decay =
      lower_bound
          ? mx::multiply(array(*lower_bound),
                         mx::sigmoid(mx::multiply(rate, sum)))
          : mx::negative(mx::multiply(rate, mx::logaddexp(sum, array(0.0f))));
  return mx::reshape(decay, x.shape());
}

}  // namespace reprise::kernels::plain
