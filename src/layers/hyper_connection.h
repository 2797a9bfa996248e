// Where a sublayer meets a residual stream that is several side by side: the
// weights of kernels/hyper.h as checkpoints have them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/hyper.h"
#include "weights/checkpoint.h"

namespace reprise {

struct HyperOptions {
  int streams = 4;
  int hidden = 0;
  float norm_eps = 0;
  float mix_eps = 0;
  int iterations = 1;
};

// hc_mult, hc_eps, hc_sinkhorn_iters of a configuration.
HyperOptions hyper_options(const nlohmann::json& config, int hidden,
                           float norm_eps);

// Of the sublayer `site` ("attn", "ffn"): "<layer>.hc_<site>_fn" or
// "<layer>.<site>_hc.fn", and so on with base and scale. Throws
// std::runtime_error naming the tensor for what is missing or of another
// shape.
kernels::HyperWeights load_hyper(const Checkpoint& checkpoint,
                                 const std::string& layer,
                                 const std::string& site,
                                 const HyperOptions& options);

// The streams of x [T, hidden]: itself, as many times: [T, streams * hidden].
mlx::core::array hyper_streams(const mlx::core::array& x, int streams);

}  // namespace reprise
