// A second embedding that feeds every layer: of each token a vector a layer,
// from a table of its own and from the first embedding, that gates what the
// layer adds of the residual stream's projection to itself.
#pragma once

#include <mlx/array.h>

#include <string>

#include "layers/decoder.h"
#include "layers/linear.h"

namespace reprise {

struct LayerEmbedding {
  int width = 0;          // elements a layer
  Linear table;           // [vocabulary, layers * width]
  Linear project;         // [layers * width, hidden]
  mlx::core::array norm;  // [width]
};

// "<body>.embed_tokens_per_layer", ".per_layer_model_projection" and
// ".per_layer_projection_norm.weight". Throws as load_linear.
LayerEmbedding load_layer_embedding(const Checkpoint& checkpoint,
                                    const std::string& body,
                                    const DecoderConfig& config, int width);

// ids int32 [T], x [T, hidden] the scaled first embedding of the same →
// [T, layers * width].
mlx::core::array layer_inputs(const mlx::core::array& ids,
                              const mlx::core::array& x,
                              const LayerEmbedding& embedding, float norm_eps);

struct LayerInput {
  Linear gate;            // [width, hidden]
  Linear project;         // [hidden, width]
  mlx::core::array norm;  // [hidden]
};

// "<layer>.per_layer_input_gate", ".per_layer_projection" and
// ".post_per_layer_input_norm.weight". Throws as load_linear.
LayerInput load_layer_input(const Checkpoint& checkpoint,
                            const std::string& layer, int hidden, int width);

// What layer `index` adds to x [T, hidden], of all layers' `inputs`.
mlx::core::array layer_input(const mlx::core::array& x,
                             const mlx::core::array& inputs, int index,
                             const LayerInput& layer, float norm_eps);

}  // namespace reprise
