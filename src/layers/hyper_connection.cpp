#include "layers/hyper_connection.h"

#include <fmt/format.h>
#include <mlx/ops.h>

#include "layers/config.h"
#include "layers/linear.h"

namespace reprise {

namespace mx = mlx::core;

HyperOptions hyper_options(const nlohmann::json& config, int hidden,
                           float norm_eps) {
  return {.streams = positive_setting(config, "hc_mult"),
          .hidden = hidden,
          .norm_eps = norm_eps,
          .mix_eps = float(number_setting(config, "hc_eps")),
          .iterations = positive_setting(config, "hc_sinkhorn_iters")};
}

kernels::HyperWeights load_hyper(const Checkpoint& checkpoint,
                                 const std::string& layer,
                                 const std::string& site,
                                 const HyperOptions& o) {
  const auto load = [&](const char* part, const mx::Shape& shape) {
    std::string name = fmt::format("{}.hc_{}_{}", layer, site, part);
    if (!checkpoint.contains(name))
      name = fmt::format("{}.{}_hc.{}", layer, site, part);
    return load_tensor(checkpoint, name, shape);
  };
  const int gates = 2 * o.streams + o.streams * o.streams;
  return {.fn = load("fn", {gates, o.streams * o.hidden}),
          .base = mx::astype(load("base", {gates}), mx::float32),
          .scale = mx::astype(load("scale", {3}), mx::float32),
          .streams = o.streams,
          .eps = o.norm_eps,
          .mix_eps = o.mix_eps,
          .iterations = o.iterations};
}

mx::array hyper_streams(const mx::array& x, int streams) {
  return mx::tile(x, {1, streams});
}

}  // namespace reprise
