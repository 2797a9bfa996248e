#include "layers/layer_inputs.h"

#include <mlx/ops.h>

#include <cmath>
#include <numbers>

#include "kernels/ops.h"

namespace reprise {

namespace mx = mlx::core;

LayerEmbedding load_layer_embedding(const Checkpoint& checkpoint,
                                    const std::string& body,
                                    const DecoderConfig& config, int width) {
  const int all = config.layers * width;
  return {
      .width = width,
      .table = load_linear(checkpoint, body + ".embed_tokens_per_layer",
                           config.vocabulary, all),
      .project = load_linear(checkpoint, body + ".per_layer_model_projection",
                             all, config.hidden),
      .norm = load_vector(checkpoint,
                          body + ".per_layer_projection_norm.weight", width)};
}

mx::array layer_inputs(const mx::array& ids, const mx::array& x,
                       const LayerEmbedding& embedding, float norm_eps) {
  const auto from_table = kernels::scale(embed(embedding.table, ids, x.dtype()),
                                         std::sqrt(float(embedding.width)));
  const auto projected = kernels::scale(linear(x, embedding.project),
                                        1 / std::sqrt(float(x.shape(1))));
  return kernels::scale(
      kernels::add(kernels::rms_norm(projected, embedding.norm, norm_eps),
                   from_table),
      1 / std::numbers::sqrt2_v<float>);
}

LayerInput load_layer_input(const Checkpoint& checkpoint,
                            const std::string& layer, int hidden, int width) {
  return {.gate = load_linear(checkpoint, layer + ".per_layer_input_gate",
                              width, hidden),
          .project = load_linear(checkpoint, layer + ".per_layer_projection",
                                 hidden, width),
          .norm = load_vector(
              checkpoint, layer + ".post_per_layer_input_norm.weight", hidden)};
}

mx::array layer_input(const mx::array& x, const mx::array& inputs, int index,
                      const LayerInput& layer, float norm_eps) {
  const auto gate = linear(x, layer.gate);
  const int width = gate.shape(1);
  const auto own =
      mx::slice(inputs, {0, index * width}, {x.shape(0), (index + 1) * width});
  return kernels::rms_norm(linear(kernels::geglu(gate, own), layer.project),
                           layer.norm, norm_eps);
}

}  // namespace reprise
