#include "layers/kda.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/recurrence.h"
#include "layers/config.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

// Of the sum of squares, not of their mean.
constexpr float kKeyNormEps = 1e-6f;

// Weights of a depthwise convolution, stored [channels, 1, taps] or
// [channels, taps, 1], as [taps, channels].
mx::array load_taps(const Checkpoint& checkpoint, const std::string& name,
                    int channels, int taps) {
  const mx::array weight = checkpoint.tensor(name);
  if (weight.ndim() != 3 || weight.shape(0) != channels ||
      weight.shape(1) * weight.shape(2) != taps)
    throw std::runtime_error(
        fmt::format("tensor '{}' has {} elements, but the configuration asks "
                    "for {} channels of {}",
                    name, weight.size(), channels, taps));
  return mx::contiguous(
      mx::transpose(mx::reshape(weight, {channels, taps}), {1, 0}));
}

mx::array load_conv(const Checkpoint& checkpoint, const std::string& module,
                    const KdaHeads& s) {
  for (const char* together : {".qkv_conv.conv.weight", ".conv1d.weight"})
    if (checkpoint.contains(module + together))
      return load_taps(checkpoint, module + together, 3 * s.width(), s.kernel);
  std::vector<mx::array> parts;
  for (const char* part : {".q_conv1d", ".k_conv1d", ".v_conv1d"})
    parts.push_back(
        load_taps(checkpoint, module + part + ".weight", s.width(), s.kernel));
  return mx::contiguous(mx::concatenate(parts, 1));
}

// Conversions have the decay's tensors in the module or in one of its own.
std::string decay_name(const Checkpoint& checkpoint, const std::string& module,
                       const std::string& part, const char* suffix = "") {
  const std::string deeper = module + ".forget_gate." + part;
  return checkpoint.contains(deeper + suffix) ? deeper : module + "." + part;
}

}  // namespace

KdaHeads kda_heads(const nlohmann::json& config) {
  KdaHeads shape{.heads = positive_setting(config, "num_heads"),
                 .dim = positive_setting(config, "head_dim"),
                 .kernel = positive_setting(config, "short_conv_kernel_size"),
                 .lower_bound = {}};
  constexpr const char* kBound = "gate_lower_bound";
  if (config.contains(kBound) && !config[kBound].is_null()) {
    shape.lower_bound = float(number_setting(config, kBound));
    if (*shape.lower_bound >= 0)
      throw std::runtime_error(
          fmt::format("the configuration's \"{}\" is {}; it must be negative",
                      kBound, *shape.lower_bound));
  }
  return shape;
}

Kda load_kda(const Checkpoint& checkpoint, const std::string& module,
             const KdaHeads& s, int hidden, float norm_eps) {
  const int width = s.width();
  const auto load = [&](const std::string& name, int out, int in) {
    return load_linear(checkpoint, name, out, in);
  };
  const auto decay = [&](const char* part) {
    return decay_name(checkpoint, module, part, ".weight");
  };
  const auto qkv = load_linears(checkpoint, module + ".qkv_proj",
                                {{module + ".q_proj", width},
                                 {module + ".k_proj", width},
                                 {module + ".v_proj", width}},
                                hidden);
  const auto low = load_linears(checkpoint, module + ".fbg_a_proj",
                                {{decay("f_a_proj"), s.dim},
                                 {module + ".b_proj", s.heads},
                                 {module + ".g_a_proj", s.dim}},
                                hidden);
  return {.shape = s,
          .q = qkv[0],
          .k = qkv[1],
          .v = qkv[2],
          .conv = load_conv(checkpoint, module, s),
          .decay_a = low[0],
          .decay_b = load(decay("f_b_proj"), width, s.dim),
          .rate = mx::astype(
              load_vector(checkpoint, decay_name(checkpoint, module, "A_log"),
                          s.heads),
              mx::float32),
          .bias = load_vector(checkpoint,
                              decay_name(checkpoint, module, "dt_bias"), width),
          .beta = low[1],
          .gate_a = low[2],
          .gate_b = load(module + ".g_b_proj", width, s.dim),
          .norm = load_vector(checkpoint, module + ".o_norm.weight", s.dim),
          .o = load(module + ".o_proj", hidden, width),
          .norm_eps = norm_eps};
}

mx::array kda(const mx::array& x, const Kda& layer, const LayerStep& step,
              int index) {
  const KdaHeads& s = layer.shape;
  const int width = s.width();
  const auto qkv = mx::concatenate(
      {linear(x, layer.q), linear(x, layer.k), linear(x, layer.v)}, 1);
  const auto mixed =
      kernels::short_conv(qkv, layer.conv, step.pools.pool(index, 0),
                          step.batch, /*silu=*/true)
          .rows;
  const auto part = [&](int i) {
    return head_columns(mixed, 1, i * width, (i + 1) * width);
  };
  const kernels::DeltaInputs inputs{
      .q = kernels::l2_norm(part(0), s.dim, kKeyNormEps,
                            1.0f / std::sqrt(float(s.dim))),
      .k = kernels::l2_norm(part(1), s.dim, kKeyNormEps, 1.0f),
      .v = part(2),
      .log_decay =
          kernels::decay_gate(linear(linear(x, layer.decay_a), layer.decay_b),
                              layer.rate, layer.bias, s.lower_bound),
      .beta = kernels::sigmoid(linear(x, layer.beta))};
  const auto o = kernels::gated_delta(
                     inputs, step.pools.pool(index, 1), step.batch,
                     {.heads = s.heads, .key_dim = s.dim, .value_dim = s.dim})
                     .rows;
  const auto gate = linear(linear(x, layer.gate_a), layer.gate_b);
  return linear(kernels::gated_rms_norm(o, layer.norm, gate, layer.norm_eps),
                layer.o);
}

LayerState kda_state(const KdaHeads& s, mx::Dtype dtype) {
  return {{"conv", Snapshot{}, (s.kernel - 1) * 3 * s.width(), dtype},
          {"recurrent", Snapshot{}, s.heads * s.dim * s.dim, mx::float32}};
}

}  // namespace reprise
